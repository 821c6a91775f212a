// Locks inside a transaction of the caller's. Table mode: the row of the key stays locked until the
// transaction ends, so that whoever wants the key waits for it in the server. Advisory mode: a lock of the
// transaction's own, which meets the session locks. A savepoint makes an attempt that came to nothing as if
// it had never been.

import { InvalidArgumentError, UnsupportedError } from "../../core/errors.ts";
import type { HolderInfo, Mode, TransactionDesk, TransactionPort } from "../../core/store.ts";
import { isServerError } from "./errors.ts";
import type { PgClient, Row } from "./client/connections.ts";
import { StatementQueue } from "./client/statement-queue.ts";

type Answer = Awaited<ReturnType<TransactionDesk["attempt"]>>;
type Wish = Parameters<TransactionDesk["attempt"]>[0];

/** One key in the transaction: its fence, or who is in the way. */
export type TakeInTransaction = (
  query: RunStatement,
  key: string,
  mode: Mode,
) => Promise<{ readonly fence: bigint } | { readonly holders: readonly HolderInfo[] }>;

/** Savepoints have one name: attempts in one transaction go one after another. */
const attempts = new WeakMap<object, StatementQueue>();

type RunStatement = (text: string, values: readonly unknown[]) => Promise<readonly Row[]>;

export class PostgresTransaction implements TransactionDesk {
  readonly #transaction: object;
  readonly #query: RunStatement;
  readonly #take: TakeInTransaction;

  constructor(tx: unknown, take: TakeInTransaction) {
    if (typeof tx !== "object" || tx === null || typeof (tx as Partial<PgClient>).query !== "function")
      throw new InvalidArgumentError("inTransaction takes a client of pg that is inside a transaction");
    // A pool gives every statement another connection.
    if ("totalCount" in tx)
      throw new InvalidArgumentError(
        "inTransaction takes a client of the pool, not the pool: await pool.connect()",
      );
    this.#take = take;
    if (isPort(tx)) {
      this.#transaction = tx.adapts;
      this.#query = async (text, values) => (await tx.query(text, values)) as readonly Row[];
    } else {
      this.#transaction = tx;
      this.#query = async (text, values) => (await (tx as PgClient).query({ text, values })).rows;
    }
  }

  attempt(wish: Wish): Promise<Answer> {
    const queue = attempts.get(this.#transaction) ?? new StatementQueue();
    attempts.set(this.#transaction, queue);
    return queue.run(() => this.#attempt(wish));
  }

  async #attempt({ keys, mode }: Wish): Promise<Answer> {
    await this.#begin();
    try {
      const fences: bigint[] = [];
      for (const key of keys) {
        const taken = await this.#take(this.#query, key, mode);
        if ("holders" in taken) {
          await this.#query("ROLLBACK TO SAVEPOINT holdfast", []);
          return { busy: taken.holders };
        }
        fences.push(taken.fence);
      }
      await this.#query("RELEASE SAVEPOINT holdfast", []);
      return { granted: fences };
    } catch (error) {
      await this.#query("ROLLBACK TO SAVEPOINT holdfast", []);
      // Somebody else is changing the row, or has just done so: that is as good as held.
      if (isServerError(error) && /^(55P03|40P01)$/.test(error.code)) return { busy: [] };
      throw error;
    }
  }

  async #begin(): Promise<void> {
    try {
      await this.#query("SAVEPOINT holdfast", []);
    } catch (error) {
      if (!isServerError(error) || error.code !== "25P01") throw error;
      throw new InvalidArgumentError("this client is not inside a transaction: BEGIN first", {
        cause: error,
      });
    }
  }
}

function isPort(tx: object): tx is TransactionPort {
  return ["object", "function"].includes(typeof (tx as Partial<TransactionPort>).adapts);
}

export function refuseShared(mode: Mode): void {
  if (mode === "shared")
    throw new UnsupportedError(
      "inside a transaction table mode takes exclusive locks only; advisory mode takes both",
    );
}
