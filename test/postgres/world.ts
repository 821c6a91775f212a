// A PostgreSQL of its own for a test file, opened stores on it, and requests to give them.

import { Pool, type PoolClient } from "pg";
import { type PostgresOptions as ServerOptions, startPostgres } from "../../scripts/servers/postgres.ts";
import type { RunningServer } from "../../scripts/servers/process.ts";
import type { Io, OpenStore, Request } from "../../src/core/store.ts";
import { postgres, type PostgresOptions } from "../../src/stores/postgres/index.ts";
import { nodeSystem } from "../../src/system/node.ts";

export const io: Io = {
  timeoutMs: 5_000,
  signal: new AbortController().signal,
  sleep: (ms) => new Promise((resolve) => void nodeSystem.after(ms, resolve)),
};

export class PostgresWorld {
  readonly server: RunningServer;
  /** Past the product. */
  readonly pool: Pool;
  readonly #opened: OpenStore[] = [];

  private constructor(server: RunningServer) {
    this.server = server;
    this.pool = new Pool({ connectionString: server.url, max: 10 }).on("error", () => {});
  }

  static async start(options: ServerOptions = {}): Promise<PostgresWorld> {
    return new PostgresWorld(await startPostgres({ own: true, ...options }));
  }

  get url(): string {
    return this.server.url;
  }

  async ask(text: string, values: readonly unknown[] = []): Promise<Record<string, unknown>[]> {
    return (await this.pool.query<Record<string, unknown>>(text, [...values])).rows;
  }

  async open(options: PostgresOptions = { url: this.url }, namespace = "t"): Promise<OpenStore> {
    const store = await postgres(options).open({ namespace, system: nodeSystem, allow: [] });
    this.#opened.push(store);
    return store;
  }

  client(): Promise<PoolClient> {
    return this.pool.connect();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#opened.map((store) => store.close()));
    await this.pool.end();
    await this.server.stop();
  }
}

let requests = 0;

export function request(keys: string | readonly string[], wish: Partial<Request> = {}): Request {
  requests += 1;
  return {
    keys: typeof keys === "string" ? [keys] : keys,
    id: nodeSystem.randomId(),
    seq: 1,
    mode: "exclusive",
    permits: 1,
    limit: 1,
    ttlMs: 10_000,
    graceMs: 50,
    keepMs: 0,
    label: `r${requests}`,
    actor: "actor",
    queue: true,
    ...wish,
  };
}

/** Waits until `look` is true. */
export async function until(what: string, look: () => boolean | Promise<boolean>, ms = 5_000): Promise<void> {
  const endMs = nodeSystem.monoMs() + ms;
  while (!(await look())) {
    if (nodeSystem.monoMs() > endMs) throw new Error(`${what} did not happen within ${ms} ms`);
    await io.sleep(5);
  }
}

export async function fenceOf(store: OpenStore, one: Request): Promise<bigint> {
  const answer = await store.attempt(one, io);
  if (!("granted" in answer)) throw new Error(`${one.label} was not granted: ${Object.keys(answer).join()}`);
  return answer.granted.fences[0] as bigint;
}
