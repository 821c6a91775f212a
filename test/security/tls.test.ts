// TLS on real servers: the right authority is enough, and whoever cannot prove who it is gets neither a password nor a lock. What is
// wrong is told at once and by name, however long the caller would wait (P17).

import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "node:tls";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startEtcd } from "../../scripts/servers/etcd.ts";
import { startMariadb } from "../../scripts/servers/mariadb.ts";
import { findProgram } from "../../scripts/servers/packages.ts";
import { freePort } from "../../scripts/servers/ports.ts";
import { startPostgres } from "../../scripts/servers/postgres.ts";
import { launch, type RunningServer } from "../../scripts/servers/process.ts";
import { redisProgram, startRedis } from "../../scripts/servers/redis.ts";
import type { ServerTls } from "../../scripts/servers/tls.ts";
import { createLocks, type Store } from "../../src/index.ts";
import { etcd } from "../../src/stores/etcd/index.ts";
import { mysql } from "../../src/stores/mysql/index.ts";
import { postgres } from "../../src/stores/postgres/index.ts";
import { redis } from "../../src/stores/redis/index.ts";
import { builtDir } from "../support/built.ts";
import { CA, CA_FILE, certificate, OTHER_CA, OTHER_CA_FILE, pem } from "../support/tls/certificates.ts";

interface Kind {
  readonly name: string;
  start(tls: ServerTls | undefined): Promise<RunningServer>;
  /** With this authority, or those that Node trusts. */
  store(server: RunningServer, ca: "ours" | "other" | "nodes"): Store;
  /** What a server without TLS is told by. One that only falls silent, or hangs up, may be better later. */
  readonly clear: { readonly message: RegExp; readonly retryable: boolean };
}

const SAYS_SO = { message: /does not speak TLS/, retryable: false };

const PEM = { ours: { ca: CA }, other: { ca: OTHER_CA }, nodes: {} } as const;
const FILE = { ours: `&sslrootcert=${CA_FILE}`, other: `&sslrootcert=${OTHER_CA_FILE}`, nodes: "" } as const;
const given = <T>(tls: T | undefined): { readonly tls?: T } => (tls === undefined ? {} : { tls });
/** mysql2 checks names only. */
const byName = (url: string): string => url.replace("127.0.0.1", "localhost");

const redisBy = (driver: "redis" | "ioredis" | undefined): Kind => ({
  name: `Redis with ${driver ?? "connections of our own"}`,
  start: (tls) => startRedis({ own: true, ...given(tls) }),
  store: ({ url }, ca) => redis({ url: url.replace(/^rediss?/, "rediss"), driver, tls: PEM[ca] }),
  clear: { message: /timeout|ETIMEDOUT|no connection within/, retryable: true },
});

const KINDS: readonly Kind[] = [
  redisBy(undefined),
  redisBy("redis"),
  redisBy("ioredis"),
  {
    name: "MariaDB",
    start: (tls) => startMariadb({ own: true, ...given(tls) }),
    store: ({ url }, ca) => mysql({ url: byName(url), ssl: PEM[ca] }),
    clear: SAYS_SO,
  },
  {
    name: "PostgreSQL",
    start: (tls) => startPostgres({ own: true, ...given(tls) }),
    store: ({ url }, ca) => postgres({ url: `${url}?sslmode=verify-full${FILE[ca]}` }),
    clear: SAYS_SO,
  },
  // An etcd that knows an authority asks clients for certificates too.
  {
    name: "etcd",
    start: (tls) => startEtcd({ own: true, ...given(tls) }),
    store: ({ url }, ca) =>
      etcd({ url: url.replace(/^etcds?/, "etcds"), tls: { ...pem("server"), ...PEM[ca] } }),
    // The server hangs up. Whether the client sees an end or a reset depends on what it had read by then.
    clear: { message: /before secure TLS connection|read ECONNRESET/, retryable: true },
  },
];
/** `code` of the error is always the same; what it says is not. */
async function refused(store: string | Store, message: RegExp, retryable = false): Promise<void> {
  const locks = createLocks(store);
  try {
    await expect(locks.acquire("k", { wait: retryable ? "5s" : "1m" })).rejects.toMatchObject({
      code: "ERR_STORE_UNAVAILABLE",
      retryable,
      message: expect.stringMatching(message) as string,
    });
  } finally {
    await locks.close();
  }
}

async function works(store: string | Store): Promise<void> {
  const locks = createLocks(store);
  try {
    expect(await locks.using("k", { wait: "100s" }, (lease) => lease.held)).toBe(true);
  } finally {
    await locks.close();
  }
}

describe.each(KINDS)("$name", ({ start, store, clear: words }) => {
  let right: RunningServer;
  let elsewhere: RunningServer;
  let clear: RunningServer;

  beforeAll(async () => {
    [right, elsewhere, clear] = await Promise.all([
      start(certificate("server")),
      start(certificate("elsewhere")),
      start(undefined),
    ]);
  });

  afterAll(async () => {
    await Promise.all([right, elsewhere, clear].map((server) => server?.stop()));
  });

  it("is used where its authority is trusted", () => works(store(right, "ours")));

  it("is refused where it is not, and that is said at once", async () => {
    const message = /does not trust the authority that signed its certificate.*NODE_EXTRA_CA_CERTS/;
    await refused(store(right, "other"), message);
    await refused(store(right, "nodes"), message);
  });

  it("is refused where its certificate is for another host", () =>
    refused(store(elsewhere, "ours"), /certificate is for another name/));

  it("is refused where it does not speak TLS", () =>
    refused(store(clear, "ours"), words.message, words.retryable));
});

describe("MariaDB", () => {
  it("by URL, and with a certificate for another host where the caller says so", async () => {
    const server = await startMariadb({ own: true, tls: certificate("elsewhere") });
    const url = byName(server.url);
    await refused(`${url}?ssl=true`, /does not trust the authority that signed its certificate/);
    await refused(mysql({ url: server.url, ssl: { ca: CA } }), /for a name only, not for an IP address/);
    await works(mysql({ url, ssl: { ca: CA, verifyIdentity: false } }));
    await server.stop();
  });
});

describe("Redis", () => {
  const tls = { ca: CA };
  let secure: RunningServer;

  beforeAll(async () => {
    const bus = [
      "--cluster-enabled",
      "yes",
      "--tls-cluster",
      "yes",
      "--cluster-port",
      String(await freePort()),
    ];
    secure = await startRedis({ own: true, tls: certificate("server"), args: bus });
  });

  afterAll(() => secure?.stop());

  it.each([undefined, "redis", "ioredis"] as const)("as a Cluster, driver %s", async (driver) => {
    await ask(secure.port, "CLUSTER ADDSLOTSRANGE 0 16383");
    const url = secure.url.replace("rediss:", "rediss+cluster:");
    await works(redis({ url, driver, tls }));
    await refused(redis({ url, driver }), /does not trust the authority that signed its certificate/);
  });

  it.each([undefined, "redis", "ioredis"] as const)("with sentinels, driver %s", async (driver) => {
    const node = await startRedis({ own: true, tls: certificate("server") });
    const sentinel = await startSecureSentinel(node.port);
    try {
      const url = `rediss+sentinel://127.0.0.1:${sentinel.port}/main`;
      await works(redis({ url, driver, tls }));
      await refused(redis({ url, driver }), /does not trust the authority that signed its certificate/);
    } finally {
      await Promise.all([sentinel.stop(), node.stop()]);
    }
  });

  it("takes options of TLS with a URL that asks for it only", () => {
    expect(() => redis({ url: "redis://127.0.0.1", tls })).toThrow(/begins with rediss/);
  });

  it("in clear text is refused by a server that speaks TLS only, and does not hang", async () => {
    const node = await startRedis({ own: true, tls: certificate("server") });
    await refused(node.url.replace("rediss:", "redis:"), /./, true);
    await node.stop();
  });

  it("by the command, with the authority in NODE_EXTRA_CA_CERTS", async () => {
    const node = await startRedis({ own: true, tls: certificate("server") });
    const run = (env: object): Promise<{ stdout: string }> =>
      promisify(execFile)(
        process.execPath,
        [join(builtDir(), "cli", "main.js"), "run", "k", "--", "echo", "held"],
        { env: { ...process.env, HOLDFAST_STORE: node.url, ...env } },
      );
    expect((await run({ NODE_EXTRA_CA_CERTS: CA_FILE })).stdout).toContain("held");
    await expect(run({})).rejects.toMatchObject({
      code: 69,
      stderr: expect.stringMatching(/NODE_EXTRA_CA_CERTS/) as string,
    });
    await node.stop();
  });
});

/** One command by TLS, past the product. */
function ask(port: number, line: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: "127.0.0.1", port, ca: CA }, () => socket.write(`${line}\r\n`));
    socket.once("error", reject);
    socket.once("data", (reply: Buffer) => {
      socket.destroy();
      resolve(reply.toString());
    });
  });
}

async function startSecureSentinel(master: number): Promise<{ port: number; stop(): Promise<void> }> {
  const port = await freePort();
  const { cert, key, ca } = certificate("server");
  const server = await launch({
    name: "redis-sentinel",
    program: await findProgram(redisProgram),
    args(folder) {
      const lines = [
        ...["port 0", `tls-port ${port}`, "bind 127.0.0.1", `dir ${folder}`, "tls-auth-clients no"],
        ...[`tls-cert-file ${cert}`, `tls-key-file ${key}`, `tls-ca-cert-file ${ca}`, "tls-replication yes"],
        `sentinel monitor main 127.0.0.1 ${master} 1`,
      ];
      writeFileSync(join(folder, "sentinel.conf"), `${lines.join("\n")}\n`);
      return [join(folder, "sentinel.conf"), "--sentinel"];
    },
    ready: async () => (await ask(port, "PING")).startsWith("+PONG"),
  });
  return { port, stop: () => server.stop() };
}
