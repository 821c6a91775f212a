// PgBouncer for tests, before a PostgreSQL: transaction pooling by default. It refuses root as PostgreSQL does.

import { writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { findProgram, type Program } from "./packages.ts";
import { freePort } from "./ports.ts";
import { readableCache, serverUser } from "./postgres.ts";
import { launch, type RunningServer } from "./process.ts";

const pgbouncerProgram: Program = {
  name: "pgbouncer",
  packages: ["pgbouncer"],
  advice: "install PgBouncer 1.18 or later (package pgbouncer)",
};

export interface PgbouncerOptions {
  /** The server behind it. */
  readonly serverPort: number;
  readonly poolMode?: "transaction" | "session";
}

export async function startPgbouncer(options: PgbouncerOptions): Promise<RunningServer> {
  const program = await findProgram(pgbouncerProgram, readableCache());
  const port = await freePort();
  const server = await launch({
    name: "pgbouncer",
    program,
    user: serverUser(),
    prepare: (folder) => writeFile(join(folder, "pgbouncer.ini"), settings(port, options), { mode: 0o644 }),
    args: (folder) => [join(folder, "pgbouncer.ini")],
    ready: () => listens(port),
  });
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    port,
    pid: server.pid,
    kill: (signal) => server.kill(signal),
    stop: () => server.stop(),
  };
}

function settings(port: number, { serverPort, poolMode = "transaction" }: PgbouncerOptions): string {
  return [
    "[databases]",
    `postgres = host=127.0.0.1 port=${serverPort} dbname=postgres user=postgres`,
    "[pgbouncer]",
    "listen_addr = 127.0.0.1",
    `listen_port = ${port}`,
    "unix_socket_dir =",
    "auth_type = any",
    `pool_mode = ${poolMode}`,
    "max_client_conn = 200",
    "default_pool_size = 20",
    "",
  ].join("\n");
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: "127.0.0.1", port }, () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", reject);
  });
}
