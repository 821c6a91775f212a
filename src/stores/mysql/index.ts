// `holdfast/mysql`: locks on MySQL and MariaDB. This file stays light: the client and the rest of the store
// are loaded when a store is opened, never on import.

import { duration } from "../../core/duration.ts";
import { InvalidArgumentError } from "../../core/errors.ts";
import type { OpenStore, Store, StoreEnv } from "../../core/store.ts";
import { type Login, parseUrl } from "./options.ts";
import { mysqlGuarantees, mysqlRowGuarantees, mysqlSeveralGuarantees } from "./guarantees.ts";
import type { RowOptions } from "./row-mode/store.ts";

export { mysqlGuarantees, mysqlRowGuarantees, mysqlSeveralGuarantees } from "./guarantees.ts";
export { schemaSql } from "./schema.ts";

export interface MysqlOptions {
  /** `mysql://user:password@host:port/database`; several hosts are parted by commas. */
  readonly url: string;
  /** "table" (default): a table of leases. "row": SELECT ... FOR UPDATE on a connection of its own. */
  readonly mode?: "table" | "row";
  /** Several hosts: no lease may be longer, and a new primary grants nothing for so long. Default "60s". */
  readonly maxTtl?: number | string;
  /** Row mode: so many connections may hold or wait for a lock. Default 100. */
  readonly maxConnections?: number;
  /**
   * False: tables and procedures are never created at run time. `holdfast schema mysql` prints them. Default
   * true.
   */
  readonly createSchema?: boolean;
  /**
   * Options of TLS, as mysql2 takes them; `?ssl=true` in the URL for none. The host name is checked unless
   * `verifyIdentity` is false.
   */
  readonly ssl?: object;
}

const QUERY = ["mode", "maxTtl", "maxConnections", "createSchema", "ssl"];
const OPTIONS = ["url", ...QUERY];
const DEFAULT_MAX_TTL = "60s";
const DEFAULT_MAX_CONNECTIONS = 100;

export function mysql(options: MysqlOptions): Store {
  refuseUnknown(Object.keys(options), OPTIONS, "mysql() has no option");
  const { login, query } = parseUrl(options.url);
  refuseUnknown([...query.keys()], QUERY, "the URL of a MySQL has no parameter");
  const mode = options.mode ?? query.get("mode") ?? "table";
  if (mode !== "table" && mode !== "row")
    throw new InvalidArgumentError(`mode is "table" or "row", not ${JSON.stringify(mode)}`);
  const full = { ...login, ssl: options.ssl ?? (isOn("ssl", query.get("ssl") ?? "false") ? {} : undefined) };
  const createSchema = options.createSchema ?? isOn("createSchema", query.get("createSchema") ?? "true");
  const maxConnections = Number(
    options.maxConnections ?? query.get("maxConnections") ?? DEFAULT_MAX_CONNECTIONS,
  );
  if (!Number.isSafeInteger(maxConnections) || maxConnections < 1)
    throw new InvalidArgumentError(
      `maxConnections must be a whole number of at least 1, got ${maxConnections}`,
    );
  if (mode === "row") return rowStore(full, { maxConnections, createSchema });
  const maxTtlMs = readMaxTtl(options.maxTtl ?? query.get("maxTtl") ?? DEFAULT_MAX_TTL);
  return {
    name: "mysql",
    guarantees: login.hosts.length > 1 ? mysqlSeveralGuarantees : mysqlGuarantees,
    load,
    async open(env: StoreEnv): Promise<OpenStore> {
      const { openTable } = await import("./store.ts");
      return openTable(full, { maxTtlMs, createSchema }, env);
    },
  };
}

const load = (): Promise<unknown> =>
  Promise.all([import("./store.ts"), import("./client/mysql2.ts").then(({ loadMysql2 }) => loadMysql2())]);

/** `mysql://...` */
export function mysqlByUrl(url: string): Store {
  return mysql({ url });
}

function rowStore(login: Login, options: RowOptions): Store {
  if (login.hosts.length > 1)
    throw new InvalidArgumentError(
      "row mode takes one host: the locks of a session are not known to any other server",
    );
  return {
    name: "mysql",
    guarantees: mysqlRowGuarantees,
    load: () => Promise.all([import("./row-mode/store.ts"), load()]),
    async open(env: StoreEnv): Promise<OpenStore> {
      const { openRows } = await import("./row-mode/store.ts");
      return openRows(login, options, env);
    },
  };
}

function refuseUnknown(given: readonly string[], known: readonly string[], what: string): void {
  for (const name of given) {
    if (!known.includes(name))
      throw new InvalidArgumentError(`${what} ${JSON.stringify(name)}: it knows ${known.join(", ")}`);
  }
}

function isOn(name: string, text: string): boolean {
  if (text === "true" || text === "false") return text === "true";
  throw new InvalidArgumentError(
    `${name} in the URL of a MySQL must be true or false, got ${JSON.stringify(text)}`,
  );
}

function readMaxTtl(value: number | string): number {
  const ms = typeof value === "number" ? value : duration(value);
  if (Number.isFinite(ms) && ms > 0) return ms;
  throw new InvalidArgumentError(`maxTtl is ${JSON.stringify(value)}: it is a duration such as "60s"`);
}
