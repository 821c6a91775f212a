// `holdfast/postgres`: locks in tables of PostgreSQL, or as advisory locks. This file stays light: the client
// and the rest of the store are loaded when a store is opened, never on import.

import type { OpenStore, Store, StoreEnv } from "../../core/store.ts";
import type { PgPool } from "./client/connections.ts";
import { advisoryGuarantees, postgresGuarantees } from "./guarantees.ts";
import {
  checkTable,
  isPgPool,
  optionsOfUrl,
  type PostgresJsLike,
  type PostgresOptions,
  readOptions,
} from "./options.ts";

export { advisoryGuarantees, postgresGuarantees } from "./guarantees.ts";
export type { PgPoolLike, PostgresJsLike, PostgresOptions } from "./options.ts";

/**
 * Locks in PostgreSQL.
 * @example createLocks(postgres({ pool: new pg.Pool() }))
 * @throws InvalidArgumentError if an option is wrong.
 */
export function postgres(options: PostgresOptions): Store {
  const settings = readOptions(options);
  const { pool, url } = options;
  return {
    name: "postgres",
    guarantees: settings.mode === "table" ? postgresGuarantees : advisoryGuarantees,
    load: () => Promise.all([import("./open.ts"), loadClient(options)]),
    async open(env: StoreEnv): Promise<OpenStore> {
      const [{ openStore }, { ownPool }] = await Promise.all([
        import("./open.ts"),
        import("./client/connect.ts"),
      ]);
      if (url !== undefined) return openStore(await ownPool(url), true, settings, env);
      if (isPgPool(pool)) return openStore(pool as unknown as PgPool, false, settings, env);
      const { loadPostgresJs, PostgresJsPool } = await import("./client/postgres-js.ts");
      const own = new PostgresJsPool(await loadPostgresJs(), pool as PostgresJsLike, env.system);
      return openStore(own, true, settings, env);
    },
  };
}

function loadClient({ pool, url }: PostgresOptions): Promise<unknown> {
  if (url !== undefined) return import("./client/connect.ts").then(({ loadPg }) => loadPg());
  if (isPgPool(pool)) return Promise.resolve();
  return import("./client/postgres-js.ts").then(({ loadPostgresJs }) => loadPostgresJs());
}

/** `postgres://...`, perhaps with `?mode=advisory`, `?table=NAME` and `?createSchema=false`. */
export function postgresByUrl(url: string): Store {
  return postgres(optionsOfUrl(url));
}

/**
 * The statements that create the tables and functions of both modes, as `holdfast schema postgres` prints
 * them. They may be run
 * again: what is there stays.
 * @param table What the names of the tables begin with, perhaps with a schema before it.
 */
export async function schemaSql(table: string = "holdfast"): Promise<string> {
  checkTable(table);
  const { fullSchema } = await import("./schema.ts");
  return fullSchema(table, "table") + fullSchema(table, "advisory");
}
