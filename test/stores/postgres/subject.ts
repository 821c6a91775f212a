// A PostgreSQL as the subject of the suite. It forces nothing to disk, which only a crash of the machine
// could tell from one that does: what was committed survives the kill of its processes.

import { chownSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Pool } from "pg";
import postgresJs from "postgres";
import { freePort } from "../../../scripts/servers/ports.ts";
import { serverUser, startPostgres } from "../../../scripts/servers/postgres.ts";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import {
  advisoryGuarantees,
  postgres,
  postgresGuarantees,
  type PostgresOptions,
} from "../../../src/stores/postgres/index.ts";
import type { Server, Subject } from "../../../src/testing/index.ts";
import { openPool } from "../../support/pg-pool.ts";

class KillablePostgres implements Server {
  #dataFolder: string | null = null;
  #port = 0;
  #server: RunningServer | null = null;

  get url(): string {
    return `postgres://postgres@127.0.0.1:${this.#port}/postgres`;
  }

  async start(): Promise<void> {
    this.#port ||= await freePort();
    this.#dataFolder ??= newFolder();
    this.#server = await startPostgres({ own: true, port: this.#port, dataFolder: this.#dataFolder });
  }

  async restart(): Promise<void> {
    this.#server?.kill("SIGKILL");
    await this.#server?.stop();
    await this.start();
  }

  async stop(): Promise<void> {
    await this.#server?.stop();
    if (this.#dataFolder !== null) rmSync(this.#dataFolder, { recursive: true, force: true });
  }
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-postgres-data-"));
  const user = serverUser();
  if (user !== undefined) chownSync(folder, user.uid, user.gid);
  return folder;
}

/** By URL, with one pool of pg that all stores are given, or with an instance of postgres.js. */
export function postgresSubject(way: "url" | "pg pool" | "postgres.js" = "url"): {
  readonly store: Subject;
  readonly server: Server;
} {
  const server = new KillablePostgres();
  let pool: Pool | null = null;
  const options = (): PostgresOptions => {
    if (way === "url") return { url: server.url };
    // It is never connected: the store connects with its options.
    if (way === "postgres.js") return { pool: postgresJs(server.url) };
    pool ??= openPool(server.url, { max: 10 });
    return { pool };
  };
  return {
    store: {
      name: `postgres by ${way}`,
      guarantees: postgresGuarantees,
      create: () => postgres(options()),
      child: () => ({ url: server.url }),
      footprint: (namespace) => countRows(server.url, namespace),
    },
    server: {
      start: () => server.start(),
      restart: () => server.restart(),
      async stop() {
        await pool?.end();
        await server.stop();
      },
    },
  };
}

/** Session locks on connections of their own. */
export function advisorySubject(): { readonly store: Subject; readonly server: Server } {
  const server = new KillablePostgres();
  return {
    store: {
      name: "postgres, advisory",
      guarantees: advisoryGuarantees,
      create: () => postgres({ url: server.url, mode: "advisory" }),
      child: () => ({ url: `${server.url}?mode=advisory` }),
      footprint: (namespace) => countSessions(server.url, namespace),
    },
    server,
  };
}

async function countSessions(url: string, namespace: string): Promise<number> {
  const pool = openPool(url);
  try {
    const text = "SELECT (SELECT count(*) FROM holdfast_sessions WHERE namespace = $1) AS count";
    const { rows } = await pool.query<{ count: string }>(text, [namespace]);
    return Number(rows[0]?.count);
  } finally {
    await pool.end();
  }
}

async function countRows(url: string, namespace: string): Promise<number> {
  const pool = openPool(url);
  try {
    const text =
      "SELECT (SELECT count(*) FROM holdfast_lock WHERE namespace = $1) + (SELECT count(*) FROM " +
      "holdfast_waiter) + (SELECT count(*) FROM holdfast_holder) + (SELECT count(*) FROM " +
      "holdfast_ended) AS count";
    const { rows } = await pool.query<{ count: string }>(text, [namespace]);
    return Number(rows[0]?.count);
  } finally {
    await pool.end();
  }
}
