// `holdfast/mikro-orm`: locks inside a transaction of MikroORM. https://mikro-orm.io/docs/transactions

import { InvalidArgumentError } from "../core/errors.ts";
import type { TransactionPort } from "../core/store.ts";
import { portOf, withQuestionMarks } from "./port.ts";

/** What is used of the `EntityManager` of an SQL driver of MikroORM. */
export interface MikroOrmManager {
  execute(sql: string, parameters: never): Promise<unknown>;
  isInTransaction(): boolean;
  getTransactionContext(): object | undefined;
}

/**
 * A transaction of MikroORM for `locks.inTransaction`.
 *
 * @example
 * await em.transactional(async (tx) => {
 *   await locks.inTransaction(transaction(tx)).acquire("order:42");
 * });
 */
export function transaction(em: MikroOrmManager): TransactionPort {
  const context = em.isInTransaction() ? em.getTransactionContext() : undefined;
  if (context === undefined)
    throw new InvalidArgumentError(
      "this EntityManager has no transaction: take the one that em.transactional calls back with",
    );
  return portOf(context, async (sql, parameters) => {
    const { text, values } = withQuestionMarks(sql, parameters);
    return em.execute(text, values as never);
  });
}
