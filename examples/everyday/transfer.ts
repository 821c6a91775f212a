// Money goes from one account to another. Both keys are taken at once, in an order that everybody uses: two transfers that cross cannot
// lock each other out, and nobody reads a balance in between.

import type { Locks } from "holdfast";
import type { RedisClientType } from "redis";

export type Accounts = Pick<RedisClientType, "get" | "set">;

/** false where there is not enough. */
export async function transfer(
  locks: Locks,
  accounts: Accounts,
  from: string,
  to: string,
  amount: number,
): Promise<boolean> {
  return locks.using([`account:${from}`, `account:${to}`], { wait: "30s" }, async (lease) => {
    const [has = 0, gets = 0] = (await Promise.all([accounts.get(from), accounts.get(to)])).map(Number);
    if (has < amount) return false;
    // Late is worse than never: what was read is old once the lease has ended.
    lease.assertHeld();
    await Promise.all([accounts.set(from, String(has - amount)), accounts.set(to, String(gets + amount))]);
    return true;
  });
}
