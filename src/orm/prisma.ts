// `holdfast/prisma`: locks inside an interactive transaction of Prisma.
// https://www.prisma.io/docs/orm/prisma-client/queries/transactions

import type { TransactionPort } from "../core/store.ts";
import { portOf } from "./port.ts";

/** What is used of the client of an interactive transaction. A `PrismaClient` itself does not compile. */
export interface PrismaTransaction {
  $queryRawUnsafe(sql: string, ...values: never[]): Promise<unknown>;
  readonly $connect?: never;
}

/**
 * An interactive transaction of Prisma for `locks.inTransaction`. The `timeout` of the transaction has to be
 * longer than the wait for the lock: Prisma ends a transaction after 5 seconds by default.
 *
 * @example
 * await prisma.$transaction(
 *   async (tx) => {
 *     await locks.inTransaction(transaction(tx)).acquire("order:42", { wait: "5s" });
 *   },
 *   { timeout: 15_000 },
 * );
 */
export function transaction(tx: PrismaTransaction): TransactionPort {
  return portOf(tx, async (sql, values) => tx.$queryRawUnsafe(sql, ...(values as never[])));
}
