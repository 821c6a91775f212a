// A PostgreSQL of its own for a test file, opened stores on it, and requests to give them.

import type { Pool, PoolClient } from "pg";
import { type PostgresOptions as ServerOptions, startPostgres } from "../../../scripts/servers/postgres.ts";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import type { OpenStore } from "../../../src/core/store.ts";
import { postgres, type PostgresOptions } from "../../../src/stores/postgres/index.ts";
import { nodeSystem } from "../../../src/system/node.ts";
import { openPool } from "../../support/pg-pool.ts";

export { answered, fenceOf, io, request, until } from "../../support/store-calls.ts";

export class PostgresWorld {
  readonly server: RunningServer;
  /** Past the product. */
  readonly pool: Pool;
  readonly #opened: OpenStore[] = [];

  private constructor(server: RunningServer) {
    this.server = server;
    this.pool = openPool(server.url, { max: 10 });
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
