// `holdfast/knex`: locks inside a transaction of Knex. https://knexjs.org/guide/transactions.html

import type { TransactionPort } from "../core/store.ts";
import { portOf, withQuestionMarks } from "./port.ts";

/** What is used of a `Knex.Transaction`. A `Knex` itself does not compile. */
export interface KnexTransaction {
  raw(sql: string, bindings: never): PromiseLike<unknown>;
  isCompleted(): boolean;
}

/**
 * A transaction of Knex for `locks.inTransaction`.
 *
 * @example
 * await knex.transaction(async (trx) => {
 *   await locks.inTransaction(transaction(trx)).acquire("order:42");
 * });
 */
export function transaction(trx: KnexTransaction): TransactionPort {
  return portOf(trx, async (sql, parameters) => {
    const { text, values } = withQuestionMarks(sql, parameters);
    return trx.raw(text, values as never);
  });
}
