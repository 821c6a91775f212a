// Guards a row inside the caller's own transaction. The fence is a column of the row. The database locks the
// row until the transaction ends, so no other holder can write between the check and the caller's writes.

import { InvalidArgumentError, MissingRowError } from "../core/errors.ts";
import { type Fence, fenceOf, readFence, staleError } from "./fence.ts";

/** The SQL dialect of `guardRow.sql`. */
export type Dialect = "postgres" | "mysql";

/** Options of `guardRow`. */
export interface GuardRowOptions {
  /** `name`, `schema.name`, or an array of these parts if a part contains a dot. */
  readonly table: string | readonly string[];
  /** The value of `idColumn` in the row. */
  readonly id: unknown;
  /** The lease that protects the row, or its fence. */
  readonly fence: Fence;
  /** @default "id" */
  readonly idColumn?: string | undefined;
  /**
   * A signed 64-bit column. NULL counts as 0.
   *
   * @default "fence"
   */
  readonly fenceColumn?: string | undefined;
  /** The key of the lock, for a lease of several keys. */
  readonly lock?: string | undefined;
}

/** An SQL statement with its parameters. */
export interface Statement {
  readonly text: string;
  readonly values: readonly unknown[];
}

/** A connection of pg or mysql2 (callbacks or promises) with an open transaction. A pool is rejected. */
export type Transaction = object;

/** The type of `guardRow`. */
export interface GuardRow {
  /**
   * Claims the row for the fence. Rejects with `StaleFenceError`, with `MissingRowError`, or with the error of
   * the database, unchanged.
   */
  (tx: Transaction, options: GuardRowOptions): Promise<void>;
  /**
   * The claim as a statement, for query builders. If it affects one row, the fence was accepted. If it
   * affects none, the fence is stale or the row is missing.
   */
  sql(dialect: Dialect, options: GuardRowOptions): Statement;
}

async function claim(tx: Transaction, options: GuardRowOptions): Promise<void> {
  const link = linkOf(tx);
  const number = fenceOf(options.fence, options.lock);
  if ((await link.run(claimSql(link.dialect, options, number))).count > 0) return;
  // No row was affected: the row is missing, its fence is larger, or it is equal and MySQL counts changes only.
  const { rows } = await link.run(readSql(link.dialect, options));
  const [row] = rows;
  if (row === undefined) {
    throw new MissingRowError(`${nameOf(options)} has no row with this id to guard: insert the row first`, {
      key: options.lock,
    });
  }
  const seen = readFence(`a row of ${nameOf(options)}`, options.lock, String(row["fence"] ?? 0));
  if (seen !== number) throw staleError(`a row of ${nameOf(options)}`, options.lock, number, seen);
}

function sql(dialect: Dialect, options: GuardRowOptions): Statement {
  if (dialect !== "postgres" && dialect !== "mysql") {
    throw new InvalidArgumentError(`dialect must be "postgres" or "mysql", got ${String(dialect)}`);
  }
  return claimSql(dialect, options, fenceOf(options.fence, options.lock));
}

/**
 * Claims a row for the fence of a lease, inside your own transaction.
 *
 * @example
 * await client.query("BEGIN");
 * await guardRow(client, { table: "orders", id: 42, fence: lease });
 * await client.query("UPDATE orders SET state = 'paid' WHERE id = 42");
 * await client.query("COMMIT");
 */
export const guardRow: GuardRow = Object.assign(claim, { sql });

function claimSql(dialect: Dialect, options: GuardRowOptions, fence: bigint): Statement {
  const { table, id, column } = names(dialect, options);
  if (dialect === "postgres") {
    const text = `UPDATE ${table} SET ${column} = $1::bigint WHERE ${id} = $2 AND COALESCE(${column}, 0) <= $1::bigint`;
    return { text, values: [String(fence), options.id] };
  }
  // Without the cast MySQL compares a number with a string as doubles, and different large fences are equal.
  const cast = "CAST(? AS SIGNED)";
  const text = `UPDATE ${table} SET ${column} = ${cast} WHERE ${id} = ? AND COALESCE(${column}, 0) <= ${cast}`;
  return { text, values: [String(fence), options.id, String(fence)] };
}

/** FOR UPDATE reads the latest committed row instead of the transaction's snapshot. */
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
    throw new InvalidArgumentError("table must be the name of a table, or an array of its parts");
  return {
    table: parts.map((part) => quoted(dialect, part)).join("."),
    id: quoted(dialect, idColumn),
    column: quoted(dialect, fenceColumn),
  };
}

function quoted(dialect: Dialect, name: unknown): string {
  if (typeof name !== "string" || name === "" || name.includes("\0")) {
    throw new InvalidArgumentError(`the name of a table or column must not be ${JSON.stringify(name)}`);
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

/** Tells the drivers apart by their shape: only mysql2 has `execute`. */
function linkOf(tx: Transaction): Link {
  const shape = tx as Partial<Shape> | null;
  if (typeof shape !== "object" || shape === null || typeof shape.query !== "function") {
    throw new InvalidArgumentError(
      "tx must be a connection of pg or mysql2 with an open transaction: pass the client that ran BEGIN",
    );
  }
  if (typeof shape.getConnection === "function" || typeof shape.totalCount === "number") {
    throw new InvalidArgumentError(
      "tx must be one connection with an open transaction, got a pool: " +
        "the claim and the writes after it must be in one transaction",
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
