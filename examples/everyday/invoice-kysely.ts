// Invoice numbers without gaps, in a transaction of Kysely: as invoice.ts, without SQL by hand.

import type { Locks } from "holdfast";
import { transaction } from "holdfast/kysely";
import type { Kysely } from "kysely";

export interface Tables {
  readonly invoices: { readonly number: number; readonly customer: string };
}

export function invoice(
  locks: Locks,
  db: Kysely<Tables>,
  customer: string,
  approve: (number: number) => boolean,
): Promise<number> {
  return db.transaction().execute(async (trx) => {
    await locks.inTransaction(transaction(trx)).acquire("invoice-number", { wait: "30s" });
    const last = await trx
      .selectFrom("invoices")
      .select((all) => all.fn.max("number").as("number"))
      .executeTakeFirst();
    const number = (last?.number ?? 0) + 1;
    await trx.insertInto("invoices").values({ number, customer }).execute();
    if (!approve(number)) throw new Error(`invoice ${number} was not approved`);
    return number;
  });
}
