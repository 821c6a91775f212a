// Many requests want a free phone to dial with. The phones are rows of MariaDB, the locks are in Redis: whoever gets the lock of a phone
// has it alone, and the row refuses a holder whose lease has ended meanwhile. Busy phones are passed over, nobody waits in vain.

import type { Locks } from "holdfast";
import { guardRow } from "holdfast/fence";
import type { Pool, PoolConnection, RowDataPacket } from "mysql2/promise";

export const SCHEMA = [
  "CREATE TABLE phones (id int PRIMARY KEY, number varchar(20), busy boolean NOT NULL DEFAULT 0, fence bigint) ENGINE=InnoDB",
  "CREATE TABLE calls (phone int, callee varchar(20), began_us bigint, ended_us bigint) ENGINE=InnoDB",
] as const;

/** Dials with the first phone that can be had; null when all are busy. */
export async function dial(
  locks: Locks,
  db: Pool,
  callee: string,
  talk: (number: string) => Promise<void>,
): Promise<string | null> {
  const [phones] = await db.query<RowDataPacket[]>(
    "SELECT id, number FROM phones WHERE NOT busy ORDER BY id",
  );
  for (const { id, number } of phones as { id: number; number: string }[]) {
    const lease = await locks.tryAcquire(`phone:${id}`, { ttl: "10s", label: `call to ${callee}` });
    if (lease === null) continue;
    try {
      const mark = (busy: boolean) => (tx: PoolConnection) =>
        tx.query("UPDATE phones SET busy = ? WHERE id = ?", [busy, id]);
      const guarded = (change: (tx: PoolConnection) => Promise<unknown>): Promise<void> =>
        transaction(db, async (tx) => {
          await guardRow(tx, { table: "phones", id, fence: lease });
          await change(tx);
        });
      await guarded(mark(true));
      const beganUs = microseconds();
      await talk(number);
      await guarded(async (tx) => {
        await mark(false)(tx);
        await tx.query("INSERT INTO calls VALUES (?, ?, ?, ?)", [id, callee, beganUs, microseconds()]);
      });
      return number;
    } finally {
      await lease.release();
    }
  }
  return null;
}

async function transaction(db: Pool, run: (tx: PoolConnection) => Promise<void>): Promise<void> {
  const tx = await db.getConnection();
  try {
    await tx.beginTransaction();
    await run(tx);
    await tx.commit();
  } catch (error) {
    await tx.rollback();
    throw error;
  } finally {
    tx.release();
  }
}

const microseconds = (): number => Math.round((performance.timeOrigin + performance.now()) * 1_000);
