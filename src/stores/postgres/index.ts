// `holdfast/postgres`: locks in a table of PostgreSQL. This file stays light: the client and the rest of the store are loaded
// when a store is opened, never on import.

import { InvalidArgumentError } from "../../core/errors.ts";
import type { OpenStore, Store, StoreEnv } from "../../core/store.ts";
import { advisoryGuarantees, postgresGuarantees } from "./guarantees.ts";

export { advisoryGuarantees, postgresGuarantees } from "./guarantees.ts";

/** A `Pool` of `pg`, by the members that tell it from a single client. */
export interface PgPoolLike {
  readonly options: object;
  readonly totalCount: number;
  readonly connect: (...args: never[]) => unknown;
  readonly query: (...args: never[]) => unknown;
  readonly end: (...args: never[]) => unknown;
}

export interface PostgresOptions {
  /**
   * A pool of `pg` (8.11 or later). holdfast never changes and never closes it. Connections that are kept for
   * long are opened beside the pool.
   */
  readonly pool?: PgPoolLike | undefined;
  /** Instead of a pool: `postgres://user:password@host:port/database`. */
  readonly url?: string;
  /** What the names of the tables begin with, perhaps with a schema: `locking.holdfast`. Default `holdfast`. */
  readonly table?: string;
  /** "table": leases in a table. "advisory": session locks, one connection each. Default "table". */
  readonly mode?: "table" | "advisory";
}

const OPTIONS = ["pool", "url", "table", "mode"];
const IDENTIFIER = /^([a-z_][a-z0-9_]{0,39}\.)?[a-z_][a-z0-9_]{0,39}$/;

export function postgres(options: PostgresOptions): Store {
  for (const name of Object.keys(options)) {
    if (!OPTIONS.includes(name))
      throw new InvalidArgumentError(
        `postgres() has no option ${JSON.stringify(name)}: it knows ${OPTIONS.join(", ")}`,
      );
  }
  const { pool, url, table = "holdfast", mode = "table" } = options;
  if ((pool === undefined) === (url === undefined))
    throw new InvalidArgumentError("postgres() takes either a pool or a url");
  if (typeof table !== "string" || !IDENTIFIER.test(table))
    throw new InvalidArgumentError(
      `table is ${JSON.stringify(table)}: it is a name in lower case, perhaps with a schema before it, such as "locking.holdfast"`,
    );
  if (mode !== "table" && mode !== "advisory")
    throw new InvalidArgumentError(`mode is "table" or "advisory", not ${JSON.stringify(mode)}`);
  if (url !== undefined) checkUrl(url);
  return {
    name: "postgres",
    guarantees: mode === "table" ? postgresGuarantees : advisoryGuarantees,
    load: () => import("./open.ts").then(({ loadPg }) => (url === undefined ? null : loadPg())),
    async open(env: StoreEnv): Promise<OpenStore> {
      const [opening, { isPool }] = await Promise.all([import("./open.ts"), import("./port.ts")]);
      if (url !== undefined) return opening.openStore(await opening.ownPool(url), true, { table, mode }, env);
      if (!isPool(pool))
        throw new InvalidArgumentError(
          "postgres({ pool }) takes a Pool of the package pg, not a single client",
        );
      return opening.openStore(pool, false, { table, mode }, env);
    },
  };
}

/** `postgres://...` or `postgresql://...`, perhaps with `?mode=advisory` and `?table=NAME`; the rest is for the client. */
export function postgresByUrl(url: string): Store {
  checkUrl(url);
  const parsed = new URL(url);
  const [mode, table] = [parsed.searchParams.get("mode"), parsed.searchParams.get("table")];
  for (const name of ["mode", "table"]) parsed.searchParams.delete(name);
  return postgres({
    url: parsed.href,
    ...(mode === null ? {} : { mode: mode as "table" }),
    ...(table === null ? {} : { table }),
  });
}

/** The URL itself is never shown: it may hold a password. */
function checkUrl(url: string): void {
  if (typeof url === "string" && /^postgres(ql)?:\/\//.test(url) && URL.canParse(url)) return;
  throw new InvalidArgumentError("the URL of a PostgreSQL is postgres://user@host:port/database");
}
