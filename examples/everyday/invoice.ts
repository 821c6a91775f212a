// Invoice numbers without gaps. The lock is part of the caller's own transaction: it is let go of by COMMIT or ROLLBACK and by nothing else, so a
// number is used exactly if its invoice is there. There is no ttl to think about, and no fence to check.

import type { Locks } from "holdfast";
import type { Pool } from "pg";

export const SCHEMA = "CREATE TABLE invoices (number int PRIMARY KEY, customer text NOT NULL)";

export async function invoice(
  locks: Locks,
  pool: Pool,
  customer: string,
  approve: (number: number) => boolean,
): Promise<number> {
  const tx = await pool.connect();
  try {
    await tx.query("BEGIN");
    await locks.inTransaction(tx).acquire("invoice-number", { wait: "30s" });
    const last = await tx.query<{ last: number }>(
      "SELECT coalesce(max(number), 0)::int AS last FROM invoices",
    );
    const number = (last.rows[0]?.last ?? 0) + 1;
    await tx.query("INSERT INTO invoices VALUES ($1, $2)", [number, customer]);
    if (!approve(number)) throw new Error(`invoice ${number} was not approved`);
    await tx.query("COMMIT");
    return number;
  } catch (error) {
    await tx.query("ROLLBACK");
    throw error;
  } finally {
    tx.release();
  }
}
