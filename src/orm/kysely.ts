// `holdfast/kysely`: locks inside a transaction of Kysely. https://kysely.dev/docs/examples/transactions

import type { TransactionPort } from "../core/store.ts";
import { portOf } from "./port.ts";

/** What is used of a `Transaction` of Kysely. A `Kysely` itself does not compile. */
export interface KyselyTransaction {
  readonly isTransaction: true;
  withoutPlugins(): { executeQuery(query: never): Promise<{ readonly rows: readonly unknown[] }> };
}

/**
 * A transaction of Kysely for `locks.inTransaction`.
 *
 * @example
 * await db.transaction().execute(async (trx) => {
 *   await locks.inTransaction(transaction(trx)).acquire("order:42");
 * });
 */
export function transaction(trx: KyselyTransaction): TransactionPort {
  // A plugin could rename the columns of the answer.
  const plain = trx.withoutPlugins();
  return portOf(trx, (sql, parameters) => {
    const query = { kind: "RawNode", sqlFragments: [sql], parameters: [] };
    return plain.executeQuery({ sql, parameters, query, queryId: { queryId: "holdfast" } } as never);
  });
}
