// Redis for tests: one server on a free loopback port, nothing saved to disk unless the caller asks for it.

import { connect } from "node:net";
import { connect as connectTls } from "node:tls";
import { givenServer } from "./given.ts";
import { type FoundProgram, findProgram, type Program } from "./packages.ts";
import { freePort } from "./ports.ts";
import { launch, type RunningServer } from "./process.ts";
import type { ServerTls } from "./tls.ts";

export interface RedisOptions {
  /** Do not take the server that the environment names: this one will be killed. */
  readonly own?: boolean;
  /** Default a free one. */
  readonly port?: number;
  /** Keeps the data for a restart; default a temporary folder. */
  readonly dataFolder?: string;
  /** More of redis-server's own arguments, for example `["--appendonly", "yes"]`. */
  readonly args?: readonly string[];
  /** Default from PATH or unpacked. */
  readonly program?: FoundProgram;
  /** Nothing but TLS. */
  readonly tls?: ServerTls;
}

/** `HOLDFAST_TEST_REDIS_PROGRAM=valkey-server`: Valkey stands in for Redis. */
const NAME: string = process.env["HOLDFAST_TEST_REDIS_PROGRAM"] ?? "redis-server";

export const redisProgram: Program = {
  name: NAME,
  packages: [NAME],
  newest: { suite: "sid" },
  advice:
    "install Redis 7 (package redis-server or redis), or name a running one in HOLDFAST_TEST_REDIS=redis://host:port",
};

const BIND_TRIES = 5;
const ANSWER_MS = 5_000;

export async function startRedis(options: RedisOptions = {}): Promise<RunningServer> {
  if (options.own !== true) {
    const given = await givenServer({
      name: "Redis",
      variable: "HOLDFAST_TEST_REDIS",
      defaultPort: 6379,
      answers,
    });
    if (given !== null) return given;
  }
  const program = options.program ?? (await findProgram(redisProgram));
  for (let tries = 1; ; tries += 1) {
    try {
      return await startOn(options.port ?? (await freePort()), program, options);
    } catch (error) {
      // Somebody took the port between finding it free and binding it.
      const taken = String(error).includes("Address already in use");
      if (!taken || options.port !== undefined || tries === BIND_TRIES) throw error;
    }
  }
}

async function startOn(port: number, program: FoundProgram, options: RedisOptions): Promise<RunningServer> {
  const server = await launch({
    name: "redis",
    program,
    dataFolder: options.dataFolder,
    args: (dataFolder) => [
      ...(options.tls === undefined ? ["--port", String(port)] : tlsArgs(port, options.tls)),
      ...["--bind", "127.0.0.1", "--dir", dataFolder],
      ...["--save", "", "--appendonly", "no", "--enable-debug-command", "local"],
      ...["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"],
      ...(options.args ?? []),
    ],
    ready: () => answers("127.0.0.1", port, options.tls !== undefined),
  });
  return {
    url: `${options.tls === undefined ? "redis" : "rediss"}://127.0.0.1:${port}`,
    port,
    pid: server.pid,
    kill: (signal) => server.kill(signal),
    stop: () => server.stop(),
  };
}

function tlsArgs(port: number, { cert, key, ca }: ServerTls): string[] {
  return [
    ...["--port", "0", "--tls-port", String(port), "--tls-auth-clients", "no"],
    ...["--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ca],
  ];
}

/** PONG, or a demand for a password: both are a Redis that is ready. LOADING is not. */
function answers(host: string, port: number, tls = false): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const ping = (): void => void socket.write("PING\r\n");
    // Whether its certificate is right is not asked here.
    const socket = tls
      ? connectTls({ host, port, rejectUnauthorized: false }, ping)
      : connect({ host, port }, ping);
    socket.setTimeout(ANSWER_MS, () => socket.destroy(new Error(`no answer within ${ANSWER_MS} ms`)));
    socket.once("data", (reply: Buffer) => {
      socket.destroy();
      resolve(/^(\+PONG|-NOAUTH)/.test(reply.toString()));
    });
    socket.once("error", reject);
    socket.once("end", () => {
      socket.destroy();
      reject(new Error("it hung up"));
    });
  });
}
