// The caller's own connection of mysql2, with its transaction open. InnoDB keeps a row locked until the
// transaction ends, whatever is rolled back before: so nothing may be locked here that might turn out to be
// somebody else's.

import { InvalidArgumentError, StoreUnavailableError } from "../../core/errors.ts";
import type { TransactionPort } from "../../core/store.ts";
import { codeOf } from "./errors.ts";
import { type Answer, type Dialect, type Row, textOf, type Value } from "./client/port.ts";
import { sql } from "./sql.ts";

interface Header {
  readonly affectedRows: number;
  readonly serverStatus: number;
}

/** What is used of a connection of mysql2, with or without promises. */
interface Shape {
  query(options: object): Promise<[Header | readonly Row[], unknown]>;
  execute(options: object): Promise<[Header | readonly Row[], unknown]>;
  promise?(): Shape;
  getConnection?: unknown;
}

/** Bits of the status that comes with every answer without rows. */
const IN_TRANSACTION = 1;
const AUTOCOMMIT = 2;
const DEADLOCK = 1213;
const NO_SUCH_SAVEPOINT = 1305;

/** Whatever else the caller has set on the connection. */
const PLAIN = {
  rowsAsArray: false,
  nestTables: false,
  typeCast: true,
  supportBigNumbers: true,
  bigNumberStrings: false,
};

/** What tells servers apart, as `ServerFacts.server` does. */
const SERVER: Readonly<Record<Dialect, string>> = {
  mysql: "@@server_uuid",
  mariadb: "CONCAT(@@server_id, '@', @@hostname, ':', @@port)",
};

/** A lock that readers share. */
export function sharing(dialect: Dialect): string {
  return dialect === "mariadb" ? "LOCK IN SHARE MODE" : "FOR SHARE";
}

export class MysqlTransaction {
  /** The same for every wrapper that mysql2 makes of one connection. */
  readonly connection: object;
  readonly #shape: Shape;
  /** A library shows no status of the server. */
  readonly #isPort: boolean = false;

  constructor(tx: unknown) {
    if (isPort(tx)) {
      this.#shape = shapeOf(tx);
      this.#isPort = true;
      this.connection = tx.adapts;
      return;
    }
    const given = tx as Partial<Shape> | null;
    if (typeof given !== "object" || given === null || typeof given.execute !== "function")
      throw new InvalidArgumentError(
        "inTransaction takes a connection of mysql2 that is inside a transaction",
      );
    // A pool gives every statement another connection.
    if (typeof given.getConnection === "function")
      throw new InvalidArgumentError(
        "inTransaction takes a connection of the pool, not the pool: await pool.getConnection()",
      );
    this.#shape = typeof given.promise === "function" ? given.promise() : (given as Shape);
    this.connection = (this.#shape as { readonly connection?: object }).connection ?? given;
  }

  /** Refuses a connection without a transaction, and one to another place than the locks are in. */
  async begin(dialect: Dialect, ask: (statement: string) => Promise<Answer>): Promise<void> {
    const [header] = await this.#shape.query({ ...PLAIN, sql: "SAVEPOINT holdfast" });
    const { serverStatus } = header as Header;
    if (!this.#isPort && (serverStatus & IN_TRANSACTION) === 0 && (serverStatus & AUTOCOMMIT) !== 0)
      throw new InvalidArgumentError("this connection is not inside a transaction: BEGIN first");
    const statement = sql["transaction_place"].replace("{server}", SERVER[dialect]);
    // Not prepared: a prepared statement stays in the database that it was prepared in.
    const [rows] = await this.#shape.query({ ...PLAIN, sql: statement });
    const own = placeOf((rows as readonly Row[])[0]);
    const ours = placeOf((await ask(statement)).rows[0]);
    if (own !== ours)
      throw new InvalidArgumentError(`the transaction is in ${own}, and the locks are in ${ours}`);
  }

  async run(statement: string, values: readonly Value[] = []): Promise<Answer> {
    try {
      const [result] = await this.#shape.execute({ ...PLAIN, sql: statement, values: [...values] });
      if ("affectedRows" in result) return { rows: [], met: result.affectedRows, insertId: 0 };
      return { rows: result, met: result.length, insertId: 0 };
    } catch (error) {
      throw codeOf(error) === DEADLOCK ? undoneError(error) : error;
    }
  }

  /** What was granted stays until the transaction ends. */
  keep(): Promise<void> {
    return this.#endSavepoint("RELEASE SAVEPOINT holdfast");
  }

  /** What was written is as if it had never been. */
  undo(): Promise<void> {
    return this.#endSavepoint("ROLLBACK TO SAVEPOINT holdfast");
  }

  /** All keys or none: what a step wrote before it failed is undone. */
  async attempt<T extends object>(step: () => Promise<T>): Promise<T> {
    try {
      const answer = await step();
      await ("granted" in answer ? this.keep() : this.undo());
      return answer;
    } catch (error) {
      // What went wrong first is what is told.
      await this.undo().catch(() => {});
      throw error;
    }
  }

  /** Outside of a transaction a savepoint is gone with its own statement. */
  async #endSavepoint(statement: string): Promise<void> {
    try {
      await this.#shape.query({ ...PLAIN, sql: statement });
    } catch (error) {
      if (codeOf(error) !== NO_SUCH_SAVEPOINT) throw error;
      throw this.#isPort ? noTransactionError(error) : undoneError(error);
    }
  }
}

function placeOf(row: Row | undefined): string {
  return `the database ${textOf(row?.["place_name"])} on ${textOf(row?.["place_server"])}`;
}

function undoneError(cause: unknown): StoreUnavailableError {
  return new StoreUnavailableError(
    "the server has rolled the whole transaction back, as the victim of a deadlock: begin it again",
    { cause },
  );
}

function noTransactionError(cause: unknown): InvalidArgumentError {
  return new InvalidArgumentError(
    "there is no transaction: none was begun, or the server has rolled it back as the victim of a deadlock",
    { cause },
  );
}

function isPort(tx: unknown): tx is TransactionPort {
  return ["object", "function"].includes(typeof (tx as Partial<TransactionPort> | null)?.adapts);
}

/** A library answers with rows. How many rows a change has met is asked of the server. */
function shapeOf(port: TransactionPort): Shape {
  const run: Shape["query"] = async (options) => {
    const { sql: text, values = [] } = options as { sql: string; values?: readonly Value[] };
    const rows = await port.query(text, values);
    if (/^SELECT\b/i.test(text)) return [rows, undefined];
    if (!/^UPDATE\b/i.test(text)) return [{ affectedRows: 0, serverStatus: 0 }, undefined];
    const [count] = await port.query("SELECT ROW_COUNT() AS met", []);
    return [{ affectedRows: Number(count?.["met"]), serverStatus: 0 }, undefined];
  };
  return { query: run, execute: run };
}
