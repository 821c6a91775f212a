// `holdfast/typeorm`: locks inside a transaction of TypeORM.
// https://typeorm.io/docs/advanced-topics/transactions

import { InvalidArgumentError } from "../core/errors.ts";
import type { TransactionPort } from "../core/store.ts";
import { portOf } from "./port.ts";

/** What is used of a `QueryRunner` of TypeORM. */
export interface TypeormQueryRunner {
  readonly isTransactionActive: boolean;
  query(sql: string, parameters: never, useStructuredResult: true): Promise<{ readonly records: unknown }>;
}

/** What is used of the `EntityManager` of a transaction. */
export interface TypeormManager {
  readonly queryRunner?: TypeormQueryRunner;
  transaction(...args: never): Promise<unknown>;
  /** A `DataSource` has it. */
  readonly manager?: never;
}

/**
 * A transaction of TypeORM for `locks.inTransaction`: the manager of `dataSource.transaction`, or a query
 * runner that has begun a transaction.
 *
 * @example
 * await dataSource.transaction(async (manager) => {
 *   await locks.inTransaction(transaction(manager)).acquire("order:42");
 * });
 */
export function transaction(manager: TypeormManager | TypeormQueryRunner): TransactionPort {
  const runner = "isTransactionActive" in manager ? manager : manager.queryRunner;
  if (runner?.isTransactionActive !== true)
    throw new InvalidArgumentError(
      "this manager has no transaction: take the one that dataSource.transaction calls back with",
    );
  return portOf(runner, async (text, values) => (await runner.query(text, values as never, true)).records);
}
