// `holdfast/mysql`: locks on MySQL and MariaDB. This file stays light: the client and the rest of the store
// are loaded when a store is opened, never on import.

import { duration } from "../../core/duration.ts";
import { InvalidArgumentError } from "../../core/errors.ts";
import type { OpenStore, Store, StoreEnv } from "../../core/store.ts";
import { type Login, loginOfPool, type Mysql2PoolLike, parseUrl, type Password } from "./options.ts";
import { mysqlGuarantees, mysqlRowGuarantees, mysqlSeveralGuarantees } from "./guarantees.ts";
import type { RowOptions } from "./row-mode/store.ts";

export { mysqlGuarantees, mysqlRowGuarantees, mysqlSeveralGuarantees } from "./guarantees.ts";
export { schemaSql } from "./schema.ts";

export type { Mysql2PoolLike } from "./options.ts";

interface MysqlCommonOptions {
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
}

export interface MysqlUrlOptions extends MysqlCommonOptions {
  /** `mysql://user:password@host:port/database`; several hosts are parted by commas. */
  readonly url: string;
  readonly pool?: undefined;
  /**
   * Instead of the password in the URL. A function is called for each new connection, so that a password or
   * token may change meanwhile.
   */
  readonly password?: Password;
  /** The path of a Unix socket, instead of the host in the URL; `?socketPath=` in the URL as well. */
  readonly socketPath?: string;
  /**
   * Options of TLS, as mysql2 takes them; `?ssl=true` in the URL for none. The host name is checked unless
   * `verifyIdentity` is false.
   */
  readonly ssl?: object;
}

export interface MysqlPoolOptions extends MysqlCommonOptions {
  /**
   * A pool of `mysql2` or `mysql2/promise`. The store connects with the options of the pool, on connections
   * of its own, because its sessions need settings that would change those of the pool.
   */
  readonly pool: Mysql2PoolLike;
  readonly url?: undefined;
}

export type MysqlOptions = MysqlUrlOptions | MysqlPoolOptions;

const COMMON = ["mode", "maxTtl", "maxConnections", "createSchema"];
const QUERY = [...COMMON, "ssl", "socketPath"];
const URL_OPTIONS = ["url", ...QUERY, "password"];
const POOL_OPTIONS = ["pool", ...COMMON];
const DEFAULT_MAX_TTL = "60s";
const DEFAULT_MAX_CONNECTIONS = 100;

/**
 * Locks in MySQL or MariaDB.
 * @example createLocks(mysql({ url: "mysql://app@127.0.0.1/app", password: readToken }))
 * @example createLocks(mysql({ pool: createPool("mysql://app:secret@127.0.0.1/app") }))
 * @throws InvalidArgumentError if an option is wrong.
 */
export function mysql(options: MysqlOptions): Store {
  if ((options.pool === undefined) === (options.url === undefined))
    throw new InvalidArgumentError("mysql() takes either a pool or a url");
  const known = options.pool === undefined ? URL_OPTIONS : POOL_OPTIONS;
  refuseUnknown(
    Object.keys(options).filter((name) => options[name as keyof MysqlOptions] !== undefined),
    known,
    `mysql({ ${known[0]} }) has no option`,
  );
  const { login, query } =
    options.pool === undefined
      ? parseUrl(options.url)
      : { login: loginOfPool(options.pool), query: new URLSearchParams() };
  refuseUnknown([...query.keys()], QUERY, "the URL of a MySQL has no parameter");
  const mode = options.mode ?? query.get("mode") ?? "table";
  if (mode !== "table" && mode !== "row")
    throw new InvalidArgumentError(`mode is "table" or "row", not ${JSON.stringify(mode)}`);
  const full = options.pool === undefined ? addUrlOptions(login, query, options) : login;
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
    guarantees: full.hosts.length > 1 ? mysqlSeveralGuarantees : mysqlGuarantees,
    load,
    async open(env: StoreEnv): Promise<OpenStore> {
      const { openTable } = await import("./store.ts");
      return openTable(full, { maxTtlMs, createSchema }, env);
    },
  };
}

/** What an option and the URL both say is as the option says. */
function addUrlOptions(login: Login, query: URLSearchParams, options: MysqlUrlOptions): Login {
  const { password = login.password } = options;
  if (typeof password !== "string" && typeof password !== "function")
    throw new InvalidArgumentError("password must be a string or a function that returns one");
  const socketPath = options.socketPath ?? query.get("socketPath");
  const ssl = options.ssl ?? (isOn("ssl", query.get("ssl") ?? "false") ? {} : undefined);
  if (socketPath === null) return { ...login, password, ssl };
  if (typeof socketPath !== "string" || socketPath === "" || login.hosts.length > 1)
    throw new InvalidArgumentError("socketPath must be the path of the Unix socket of one host");
  return { ...login, password, ssl, hosts: login.hosts.map((host) => ({ ...host, socketPath })) };
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
