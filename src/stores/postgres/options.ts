// Options of the PostgreSQL store: their types, their checks, and how a URL spells them.

import { InvalidArgumentError } from "../../core/errors.ts";

/** A `Pool` of `pg`, by the members that tell it from a single client. */
export interface PgPoolLike {
  readonly options: object;
  readonly totalCount: number;
  readonly connect: (...args: never[]) => unknown;
  readonly query: (...args: never[]) => unknown;
  readonly end: (...args: never[]) => unknown;
}

/** An instance of postgres.js, by the members that tell it from its transactions. */
export interface PostgresJsLike {
  readonly options: object;
  readonly unsafe: (...args: never[]) => unknown;
  readonly reserve: (...args: never[]) => unknown;
  readonly listen: (...args: never[]) => unknown;
}

export interface PostgresOptions {
  /**
   * A pool of `pg` (8.11 or later), beside which holdfast opens a few connections of its own. Or an instance
   * of postgres.js (3.4 or later), whose options holdfast connects with. Neither is ever changed or closed.
   */
  readonly pool?: PgPoolLike | PostgresJsLike | undefined;
  /** Instead of a pool: `postgres://user:password@host:port/database`. */
  readonly url?: string;
  /**
   * What the names of the tables begin with, perhaps with a schema: `locking.holdfast`.
   * @default "holdfast"
   */
  readonly table?: string;
  /**
   * "table": leases in tables. "advisory": session locks, one connection each.
   * @default "table"
   */
  readonly mode?: "table" | "advisory";
  /**
   * false: never create or change tables and functions. Run what `holdfast schema postgres` prints instead.
   * @default true
   */
  readonly createSchema?: boolean;
}

export interface PostgresSettings {
  readonly table: string;
  readonly mode: "table" | "advisory";
  readonly createSchema: boolean;
}

const OPTIONS = ["pool", "url", "table", "mode", "createSchema"];
const IDENTIFIER = /^([a-z_][a-z0-9_]{0,39}\.)?[a-z_][a-z0-9_]{0,39}$/;

export function isPgPool(pool: unknown): boolean {
  if (typeof pool !== "object" || pool === null) return false;
  const { options, Client, connect, end } = pool as Readonly<Record<string, unknown>>;
  const isComplete = [Client, connect, end].every((member) => typeof member === "function");
  return isComplete && typeof options === "object";
}

function isPostgresJs(pool: unknown): boolean {
  if (typeof pool !== "function") return false;
  const { options, unsafe, reserve, listen } = pool as unknown as Readonly<Record<string, unknown>>;
  const isComplete = [unsafe, reserve, listen].every((member) => typeof member === "function");
  return isComplete && Array.isArray((options as { readonly host?: unknown } | undefined)?.host);
}

/** @throws InvalidArgumentError that names the option. */
export function readOptions(options: PostgresOptions): PostgresSettings {
  for (const name of Object.keys(options)) {
    if (!OPTIONS.includes(name))
      throw new InvalidArgumentError(
        `postgres() has no option ${JSON.stringify(name)}: it knows ${OPTIONS.join(", ")}`,
      );
  }
  const { pool, url, table = "holdfast", mode = "table", createSchema = true } = options;
  if ((pool === undefined) === (url === undefined))
    throw new InvalidArgumentError("postgres() takes either a pool or a url");
  checkTable(table);
  if (mode !== "table" && mode !== "advisory")
    throw new InvalidArgumentError(`mode must be "table" or "advisory", got ${JSON.stringify(mode)}`);
  if (typeof createSchema !== "boolean")
    throw new InvalidArgumentError(`createSchema must be true or false, got ${JSON.stringify(createSchema)}`);
  if (url !== undefined) checkUrl(url);
  else if (!isPgPool(pool) && !isPostgresJs(pool))
    throw new InvalidArgumentError(
      "postgres({ pool }) takes a Pool of the package pg, not a single client, or an instance of postgres.js",
    );
  return { table, mode, createSchema };
}

export function checkTable(table: string): void {
  if (typeof table === "string" && IDENTIFIER.test(table)) return;
  throw new InvalidArgumentError(
    'table must be a name in lower case, perhaps with a schema before it, such as "locking.holdfast", ' +
      `got ${JSON.stringify(table)}`,
  );
}

/** `?mode=`, `?table=` and `?createSchema=` are ours; the rest is for the client. */
export function optionsOfUrl(url: string): PostgresOptions {
  checkUrl(url);
  const parsed = new URL(url);
  const [mode, table, createSchema] = ["mode", "table", "createSchema"].map((name) =>
    parsed.searchParams.get(name),
  );
  for (const name of ["mode", "table", "createSchema"]) parsed.searchParams.delete(name);
  return {
    url: parsed.href,
    ...(mode === null ? {} : { mode: mode as "table" }),
    ...(table === null || table === undefined ? {} : { table }),
    ...(createSchema === null || createSchema === undefined
      ? {}
      : { createSchema: readBoolean(createSchema) }),
  };
}

function readBoolean(text: string): boolean {
  if (text !== "true" && text !== "false")
    throw new InvalidArgumentError(`createSchema must be true or false, got ${JSON.stringify(text)}`);
  return text === "true";
}

/** The URL itself is never shown: it may hold a password. */
function checkUrl(url: string): void {
  if (typeof url === "string" && /^postgres(ql)?:\/\//.test(url) && URL.canParse(url)) return;
  throw new InvalidArgumentError("the URL of a PostgreSQL is postgres://user@host:port/database");
}
