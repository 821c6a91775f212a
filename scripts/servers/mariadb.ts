// MariaDB for tests: one server, or a pair that replicates both ways, on free loopback ports. The system tables are made once
// per version and copied for each server. Speed is bought with durability of the machine only: what was committed outlives
// the process, not the power.

import { execFile, spawn } from "node:child_process";
import { cpSync, existsSync, writeFileSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { connect } from "node:net";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { givenServer } from "./given.ts";
import { cacheFolder, type FoundProgram, findProgram, newestOf, type Program, publish } from "./packages.ts";
import { freePort } from "./ports.ts";
import { launch, type RunningServer } from "./process.ts";
import type { ServerTls } from "./tls.ts";

export interface MariadbOptions {
  /** Do not take the server that the environment names: this one will be killed. */
  readonly own?: boolean;
  /** Default a free one. */
  readonly port?: number;
  /** Keeps the data for a restart; default a temporary folder. */
  readonly dataFolder?: string;
  /** More of mariadbd's own arguments, for example `["--innodb-lock-wait-timeout=1"]`. */
  readonly args?: readonly string[];
  /** Default 1. The two of a pair have different ones. */
  readonly serverId?: number;
  /** Default from PATH or unpacked. */
  readonly program?: FoundProgram;
  /** The newest version that Debian has. */
  readonly newest?: boolean;
  /** More of the environment, for example a clock. */
  readonly env?: Readonly<Record<string, string>>;
  /** TLS for clients that ask for it. */
  readonly tls?: ServerTls;
}

export const mariadbProgram: Program = {
  name: "mariadbd",
  packages: ["mariadb-server-core"],
  newest: { suite: "sid" },
  advice:
    "install MariaDB 10.6 or later (package mariadb-server), or name a running server in HOLDFAST_TEST_MYSQL=mysql://user:password@host:port/database",
};

/** The account and the database of every server that is started here. */
export const APP = { user: "app", password: "app", database: "locks" } as const;

const BIND_TRIES = 5;
const ANSWER_MS = 5_000;
const PROTOCOL = 10;
const BOOTSTRAP_MS = 180_000;
const LOG_SIZE = "--innodb-log-file-size=8M";
/** What is committed is handed to the kernel at once: it survives kill -9 of the server, as a real one would. */
const QUICK = [
  "--innodb-flush-log-at-trx-commit=2",
  "--innodb-flush-method=nosync",
  "--innodb-doublewrite=0",
  "--sync-binlog=0",
  "--innodb-buffer-pool-size=32M",
  LOG_SIZE,
  "--skip-name-resolve",
  "--performance-schema=OFF",
  "--max-connections=500",
];

export async function startMariadb(options: MariadbOptions = {}): Promise<RunningServer> {
  if (options.own !== true) {
    const given = await givenServer({
      name: "MySQL or MariaDB",
      variable: "HOLDFAST_TEST_MYSQL",
      defaultPort: 3306,
      answers,
    });
    if (given !== null) return given;
  }
  const wanted = options.newest === true ? newestOf(mariadbProgram) : mariadbProgram;
  const program = options.program ?? (await findProgram(wanted));
  const template = await templateOf(program);
  for (let tries = 1; ; tries += 1) {
    try {
      return await startOn(options.port ?? (await freePort()), program, template, options);
    } catch (error) {
      // Somebody took the port between finding it free and binding it.
      const taken = /Address already in use|Do you already have another server running/.test(String(error));
      if (!taken || options.port !== undefined || tries === BIND_TRIES) throw error;
    }
  }
}

async function startOn(
  port: number,
  program: FoundProgram,
  template: string,
  options: MariadbOptions,
): Promise<RunningServer> {
  const server = await launch({
    name: "mariadb",
    program: { ...program, env: { ...program.env, ...options.env } },
    dataFolder: options.dataFolder,
    args: (dataFolder) => {
      const data = join(dataFolder, "data");
      if (!existsSync(data)) cpSync(template, data, { recursive: true });
      writeFileSync(join(dataFolder, "init.sql"), INIT);
      return [
        ...[...common(program), `--datadir=${data}`, `--port=${port}`, "--bind-address=127.0.0.1"],
        ...[`--socket=${join(dataFolder, "s.sock")}`, `--pid-file=${join(dataFolder, "pid")}`],
        ...[`--init-file=${join(dataFolder, "init.sql")}`, ...QUICK],
        ...["--log-bin=bin", "--relay-log=relay", "--log-slave-updates=0", "--binlog-format=ROW"],
        ...["--slave-exec-mode=IDEMPOTENT", "--slave-net-timeout=4"],
        ...[`--server-id=${options.serverId ?? 1}`, `--gtid-domain-id=${options.serverId ?? 1}`],
        ...(options.tls === undefined ? [] : tlsArgs(options.tls)),
        ...(options.args ?? []),
      ];
    },
    ready: () => answers("127.0.0.1", port),
  });
  return {
    url: urlOn(port),
    port,
    pid: server.pid,
    kill: (signal) => server.kill(signal),
    stop: () => server.stop(),
  };
}

/** Of a server that was started here. */
export function urlOn(port: number): string {
  return `mysql://${APP.user}:${APP.password}@127.0.0.1:${port}/${APP.database}`;
}

/** Run at every start and not replicated, so that each of a pair has it from the beginning. */
export const INIT = `SET sql_log_bin = 0;
CREATE USER IF NOT EXISTS ${APP.user}@'127.0.0.1' IDENTIFIED BY '${APP.password}';
GRANT ALL ON *.* TO ${APP.user}@'127.0.0.1' WITH GRANT OPTION;
CREATE DATABASE IF NOT EXISTS ${APP.database};
SET sql_log_bin = 1;
`;

function tlsArgs({ cert, key, ca }: ServerTls): string[] {
  return [`--ssl-cert=${cert}`, `--ssl-key=${key}`, `--ssl-ca=${ca}`];
}

/** Messages and the statements of the system tables. Their names changed with MariaDB 11. */
function sharedOf({ path, args = [] }: FoundProgram): { base: string; share: string; prefix: string } {
  // An unpacked tree is not where it was built for, so it is told where its messages and character sets lie.
  const base = dirname(dirname(args.at(-1) ?? path));
  const prefix = existsSync(join(base, "share/mariadb")) ? "mariadb" : "mysql";
  return { base, prefix, share: join(base, "share", prefix) };
}

function common(program: FoundProgram): string[] {
  const { base, share } = sharedOf(program);
  const user = process.getuid?.() === 0 ? ["--user=root"] : [];
  return ["--no-defaults", `--basedir=${base}`, `--lc-messages-dir=${share}`, ...user];
}

/** The folder of a server that nobody has used. Made once; two processes that make it at once do not meet. */
async function templateOf(program: FoundProgram): Promise<string> {
  const { stdout } = await promisify(execFile)(
    program.path,
    [...(program.args ?? []), "--no-defaults", "--version"],
    {
      env: { ...process.env, ...program.env },
    },
  );
  const version = /Ver (\S+)/.exec(stdout)?.[1] ?? "unknown";
  const template = join(cacheFolder(), `mariadb-template-${version.replaceAll(/[^\w.-]/g, "_")}`);
  const made = await readdir(dirname(template)).catch(() => [] as string[]);
  if (made.includes(basename(template))) return template;
  await mkdir(dirname(template), { recursive: true });
  const work = await mkdtemp(join(dirname(template), ".template-"));
  try {
    await bootstrap(program, work);
    await publish(work, template);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
  return template;
}

/** What mariadb-install-db does, without the programs that it needs beside the server. */
async function bootstrap(program: FoundProgram, data: string): Promise<void> {
  const { share, prefix } = sharedOf(program);
  const files = ["system_tables", "performance_tables", "system_tables_data"];
  const parts = await Promise.all(
    files.map((name) => readFile(join(share, `${prefix}_${name}.sql`), "utf8")),
  );
  const script = [
    "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\nSET @skip_auth_anonymous = 1;\n",
    ...parts,
  ].join("\n");
  const args = [...common(program), `--datadir=${data}`, "--bootstrap", "--skip-log-bin", LOG_SIZE];
  const child = spawn(program.path, [...(program.args ?? []), ...args, "--innodb-flush-method=nosync"], {
    cwd: data,
    env: { ...process.env, ...program.env },
    stdio: ["pipe", "ignore", "pipe"],
    timeout: BOOTSTRAP_MS,
  });
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => (said = `${said}${String(chunk)}`.slice(-2_000)));
  child.stdin.on("error", () => {});
  child.stdin.end(script);
  const code = await new Promise((resolve, reject) => child.on("error", reject).on("close", resolve));
  if (code !== 0) throw new Error(`the system tables of MariaDB could not be made:\n${said}`);
}

/** The first packet of a server that takes connections: its length, a zero, the version of the protocol. */
export function answers(host: string, port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port });
    socket.setTimeout(ANSWER_MS, () => socket.destroy(new Error(`no answer within ${ANSWER_MS} ms`)));
    socket.once("data", (packet: Buffer) => {
      socket.destroy();
      resolve(packet[4] === PROTOCOL);
    });
    socket.once("error", reject);
    socket.once("end", () => {
      socket.destroy();
      reject(new Error("it hung up"));
    });
  });
}
