// A job that every host's timer starts and one of them does. The key stays taken for `atLeast`, also when the
// job takes a second and the next host's clock is ten seconds late. The shell has the same:
// holdfast run --store redis://cache:6379 -n -q -E 0 --at-least 50s nightly -- ./job

import type { Locks } from "holdfast";

/** Call it from the timer of every host; true where the job ran. */
export async function nightly(locks: Locks, job: () => Promise<void>): Promise<boolean> {
  const { ran } = await locks.once("nightly", { atLeast: "1m", ttl: "30s" }, job);
  return ran;
}
