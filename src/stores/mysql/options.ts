// Where the server is and who logs in. A URL, `mysql://user:password@h1:3306,h2/database?mode=row`, may
// name several hosts, so it is not a URL that the platform could read. A pool says the same in its options.
// Nothing of it is ever shown: it may hold a password.

import { InvalidArgumentError } from "../../core/errors.ts";
import type { Address } from "./client/port.ts";

/** A password, or a function that gives the present one: it is called for each new connection. */
export type Password = string | (() => string | Promise<string>);

/** A pool of `mysql2` or of `mysql2/promise`, by the members that tell it from a connection. */
export interface Mysql2PoolLike {
  readonly getConnection: (...args: never[]) => unknown;
  readonly releaseConnection: (...args: never[]) => unknown;
  readonly execute: (...args: never[]) => unknown;
  readonly end: (...args: never[]) => unknown;
}

export interface Login {
  readonly hosts: readonly Address[];
  readonly user: string | undefined;
  readonly password: Password | undefined;
  readonly database: string;
  /** Options of TLS as mysql2 takes them. */
  readonly ssl?: object | undefined;
  /** What else a pool says about how to connect. */
  readonly poolOptions?: object | undefined;
}

export interface ParsedUrl {
  readonly login: Login;
  readonly query: URLSearchParams;
}

const DEFAULT_PORT = 3306;
const SHAPE = /^(?:mysql|mariadb):\/\/(?:([^@/]*)@)?([^/?#]+)\/([^/?#]+)(?:\?([^#]*))?$/;
const HOST = /^(\[[^\]]+\]|[^:]+)(?::(\d{1,5}))?$/;

/** Options of a pool of mysql2 about the way to the server. Those about results are the store's own. */
const CARRIED = [
  ...["stream", "localAddress", "insecureAuth", "compress", "connectAttributes", "disableEval"],
  ...["password2", "password3", "passwordSha1", "authPlugins", "authSwitchHandler", "enableCleartextPlugin"],
];

/** @throws InvalidArgumentError if it is no pool of mysql2, or one without a database. */
export function loginOfPool(pool: unknown): Login {
  const options = isPool(pool) ? connectionOptionsOf(pool) : null;
  if (options === null)
    throw new InvalidArgumentError("mysql({ pool }) takes a pool of mysql2, as createPool() makes it");
  const { host, port, socketPath, user, password, database, ssl } = options;
  if (typeof database !== "string" || database === "")
    throw new InvalidArgumentError("the pool in mysql({ pool }) names no database, and the tables need one");
  return {
    hosts: [{ host: String(host), port: Number(port), ...(socketPath ? { socketPath } : {}) }],
    user,
    password,
    database,
    ssl: ssl || undefined,
    poolOptions: Object.fromEntries(
      CARRIED.filter((name) => options[name] !== undefined).map((name) => [name, options[name]]),
    ),
  };
}

interface ConnectionOptions extends Readonly<Record<string, unknown>> {
  readonly host: unknown;
  readonly socketPath?: string;
  readonly user?: string;
  readonly password?: string;
  readonly ssl?: object | false;
}

function isPool(pool: unknown): pool is Mysql2PoolLike {
  if (typeof pool !== "object" || pool === null) return false;
  const members = pool as Partial<Record<keyof Mysql2PoolLike, unknown>>;
  return (["getConnection", "releaseConnection", "execute", "end"] as const).every(
    (name) => typeof members[name] === "function",
  );
}

/** A pool of promises has the other kind inside. null: mysql2 has changed, or it is something else. */
function connectionOptionsOf(pool: object): ConnectionOptions | null {
  const { pool: inner = pool } = pool as { readonly pool?: object };
  const { config } = inner as { readonly config?: { readonly connectionConfig?: ConnectionOptions } };
  const options = config?.connectionConfig;
  return typeof options === "object" && typeof options.host === "string" ? options : null;
}

export function parseUrl(url: string): ParsedUrl {
  const parts = typeof url === "string" ? SHAPE.exec(url) : null;
  if (parts === null) throw badUrl();
  const [, credentials = "", hosts, database, query = ""] = parts;
  const colon = credentials.indexOf(":");
  const [user, password] =
    colon === -1 ? [credentials, ""] : [credentials.slice(0, colon), credentials.slice(colon + 1)];
  return {
    login: {
      hosts: (hosts as string).split(",").map(addressOf),
      user: plain(user),
      password: plain(password),
      database: plain(database as string),
    },
    query: new URLSearchParams(query),
  };
}

function addressOf(text: string): Address {
  const parts = HOST.exec(text);
  if (parts === null) throw badUrl();
  const port = parts[2] === undefined ? DEFAULT_PORT : Number(parts[2]);
  return { host: plain((parts[1] as string).replace(/^\[|\]$/g, "")), port };
}

function plain(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw badUrl();
  }
}

function badUrl(): InvalidArgumentError {
  return new InvalidArgumentError(
    "the URL of a MySQL or MariaDB is mysql://user:password@host:port/database, with several hosts " +
      "parted by commas; special characters are percent-encoded",
  );
}
