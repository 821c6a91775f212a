// A row that refuses stale holders, inside the caller's own transaction: the row stays locked until it ends, so that nobody else
// comes between the check and the writes that follow it. The fence is a column of the row.

import { InvalidArgumentError, MissingRowError } from "../core/errors.ts";
import { type Fence, fenceOf, readFence, staleError } from "./fence.ts";

export type Dialect = "postgres" | "mysql";

export interface GuardRowOptions {
  /** `name`, `schema.name`, or its parts where a part has a dot of its own. */
  readonly table: string | readonly string[];
  readonly id: unknown;
  readonly fence: Fence;
  /** Default "id". */
  readonly idColumn?: string | undefined;
  /** Default "fence": a signed column of 64 bits; NULL counts as 0. */
  readonly fenceColumn?: string | undefined;
  /** For leases of several keys: the key of the lock. */
  readonly lock?: string | undefined;
}

export interface Statement {
  readonly text: string;
  readonly values: readonly unknown[];
}

/** A connection with an open transaction: of pg, or of mysql2 with or without promises. Never a pool. */
export type Transaction = object;

export interface GuardRow {
  /** Claims the row for this fence, or rejects: StaleFenceError, MissingRowError. What the database itself says comes through as it is. */
  (tx: Transaction, options: GuardRowOptions): Promise<void>;
  /** The claim alone, for query builders. One row affected: the fence passed; none: it is stale or there is no row. */
  sql(dialect: Dialect, options: GuardRowOptions): Statement;
}

async function claim(tx: Transaction, options: GuardRowOptions): Promise<void> {
  const link = linkOf(tx);
  const number = fenceOf(options.fence, options.lock);
  if ((await link.run(claimSql(link.dialect, options, number))).count > 0) return;
  // None: there is no such row, or a larger fence, or MySQL says "none" because the fence is the same as before.
  const { rows } = await link.run(readSql(link.dialect, options));
  const [row] = rows;
  if (row === undefined) {
    throw new MissingRowError(
      `${nameOf(options)} has no row with that id, so there is nothing to guard: insert it first`,
      { key: options.lock },
    );
  }
  const seen = readFence(`a row of ${nameOf(options)}`, options.lock, String(row["fence"] ?? 0));
  if (seen !== number) throw staleError(`a row of ${nameOf(options)}`, options.lock, number, seen);
}

function sql(dialect: Dialect, options: GuardRowOptions): Statement {
  if (dialect !== "postgres" && dialect !== "mysql") {
    throw new InvalidArgumentError('the dialect of guardRow.sql is "postgres" or "mysql"');
  }
  return claimSql(dialect, options, fenceOf(options.fence, options.lock));
}

export const guardRow: GuardRow = Object.assign(claim, { sql });

function claimSql(dialect: Dialect, options: GuardRowOptions, fence: bigint): Statement {
  const { table, id, column } = names(dialect, options);
  if (dialect === "postgres") {
    const text = `UPDATE ${table} SET ${column} = $1::bigint WHERE ${id} = $2 AND COALESCE(${column}, 0) <= $1::bigint`;
    return { text, values: [String(fence), options.id] };
  }
  // Without the cast MySQL compares a number with a text as doubles, and large fences become equal.
  const cast = "CAST(? AS SIGNED)";
  const text = `UPDATE ${table} SET ${column} = ${cast} WHERE ${id} = ? AND COALESCE(${column}, 0) <= ${cast}`;
  return { text, values: [String(fence), options.id, String(fence)] };
}

/** Locks the row, so that it reads what is there and not an old snapshot. */
function readSql(dialect: Dialect, options: GuardRowOptions): Statement {
  const { table, id, column } = names(dialect, options);
  const text =
    dialect === "postgres"
      ? `SELECT ${column}::text AS fence FROM ${table} WHERE ${id} = $1 FOR UPDATE`
      : `SELECT CAST(${column} AS CHAR) AS fence FROM ${table} WHERE ${id} = ? FOR UPDATE`;
  return { text, values: [options.id] };
}

function names(
  dialect: Dialect,
  { table, idColumn = "id", fenceColumn = "fence" }: GuardRowOptions,
): { readonly table: string; readonly id: string; readonly column: string } {
  const parts = typeof table === "string" ? table.split(".") : table;
  if (!Array.isArray(parts) || parts.length === 0)
    throw new InvalidArgumentError("guardRow needs the name of a table");
  return {
    table: parts.map((part) => quoted(dialect, part)).join("."),
    id: quoted(dialect, idColumn),
    column: quoted(dialect, fenceColumn),
  };
}

function quoted(dialect: Dialect, name: unknown): string {
  if (typeof name !== "string" || name === "" || name.includes("\0")) {
    throw new InvalidArgumentError(`${JSON.stringify(name)} is no name of a table or column`);
  }
  return dialect === "postgres" ? `"${name.replaceAll('"', '""')}"` : `\`${name.replaceAll("`", "``")}\``;
}

function nameOf({ table }: GuardRowOptions): string {
  return typeof table === "string" ? table : table.join(".");
}

interface Link {
  readonly dialect: Dialect;
  run(statement: Statement): Promise<{ readonly count: number; readonly rows: readonly Row[] }>;
}

type Row = Readonly<Record<string, string | null>>;

interface Shape {
  query(text: string, values: readonly unknown[]): Promise<unknown>;
  execute?: unknown;
  promise?(): Shape;
  getConnection?: unknown;
  totalCount?: unknown;
}

/** By shape: mysql2 has `execute`, pg has not. */
function linkOf(tx: Transaction): Link {
  const shape = tx as Partial<Shape> | null;
  if (typeof shape !== "object" || shape === null || typeof shape.query !== "function") {
    throw new InvalidArgumentError("guardRow takes a connection of pg or mysql2 with an open transaction");
  }
  if (typeof shape.getConnection === "function" || typeof shape.totalCount === "number") {
    throw new InvalidArgumentError(
      "guardRow takes one connection with an open transaction, and this is a pool: the check and the writes after it must be one transaction",
    );
  }
  return typeof shape.execute === "function" ? mysqlLink(shape as Shape) : postgresLink(shape as Shape);
}

function postgresLink(shape: Shape): Link {
  return {
    dialect: "postgres",
    async run({ text, values }) {
      const { rowCount, rows } = (await shape.query(text, values)) as {
        readonly rowCount: number | null;
        readonly rows: readonly Row[];
      };
      return { count: rowCount ?? 0, rows };
    },
  };
}

function mysqlLink(given: Shape): Link {
  const shape = typeof given.promise === "function" ? given.promise() : given;
  return {
    dialect: "mysql",
    async run({ text, values }) {
      const [result] = (await shape.query(text, values)) as [
        readonly Row[] | { readonly affectedRows: number },
      ];
      return "affectedRows" in result ? { count: result.affectedRows, rows: [] } : { count: 0, rows: result };
    },
  };
}
