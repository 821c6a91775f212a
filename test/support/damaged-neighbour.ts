// One damaged record beside healthy ones that are renewed in the same batch: only its own lease may suffer
// (P17, P19).

import { expect } from "vitest";
import type { Locks } from "../../src/index.ts";

export const HEALTHY = 20;
const PATIENCE = { timeout: 60_000 };

/** `locks` have a ttl of some seconds. `harm` damages the record of this key. */
export async function expectOthersRenewed(locks: Locks, harm: (key: string) => Promise<void>): Promise<void> {
  const renewed = new Set<string>();
  locks.on("renewed", ({ keys }) => renewed.add(keys[0] as string));
  const keys = Array.from({ length: HEALTHY }, (_none, at) => `healthy ${at}`);
  const leases = await Promise.all(keys.map((key) => locks.acquire(key, { wait: "60s" })));
  const victim = await locks.acquire("damaged", { wait: "60s" });
  await harm(victim.key);
  // One renewal more than might have been under way.
  for (let times = 0; times < 2; times += 1) {
    renewed.clear();
    await expect.poll(() => keys.filter((key) => !renewed.has(key)), PATIENCE).toEqual([]);
  }
  await expect.poll(() => victim.signal.aborted, PATIENCE).toBe(true);
  const released = await Promise.all(leases.map(async (lease) => lease.held && (await lease.release())));
  expect(released.every(Boolean)).toBe(true);
}
