// `holdfast/drizzle`: locks inside a transaction of Drizzle ORM. https://orm.drizzle.team/docs/transactions

import type { TransactionPort } from "../core/store.ts";
import { portOf } from "./port.ts";

/** What is used of a transaction of Drizzle. A database does not compile. */
export interface DrizzleTransaction {
  execute(query: never): PromiseLike<unknown>;
  rollback(): never;
}

/**
 * A transaction of Drizzle ORM for `locks.inTransaction`.
 *
 * @example
 * await db.transaction(async (tx) => {
 *   await locks.inTransaction(transaction(tx)).acquire("order:42");
 * });
 */
export function transaction(tx: DrizzleTransaction): TransactionPort {
  // Drizzle asks whatever it executes for its SQL, and that for its text and parameters.
  return portOf(tx, async (sql, params) =>
    tx.execute({ getSQL: () => ({ toQuery: () => ({ sql, params }) }) } as never),
  );
}
