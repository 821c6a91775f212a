// Jobs that every replica schedules and one of them runs, with node-cron and with croner.

import { Cron } from "croner";
import type { Locks } from "holdfast";
import type { RunCoordinator } from "node-cron";

/**
 * The coordinator of node-cron: `schedule(pattern, job, { name, distributed: true, runCoordinator })`.
 * The key has the time of the run, so it stays taken until the job has ended, and for at least `ttlMs`.
 */
export function runCoordinator(locks: Locks): RunCoordinator {
  const running = new Map<string, () => void>();
  return {
    shouldRun: (key, ttlMs) =>
      new Promise((resolve, reject) => {
        const untilCompleted = (): Promise<void> =>
          new Promise((completed) => {
            running.set(key, completed);
            resolve(true);
          });
        locks.once(key, { atLeast: ttlMs }, untilCompleted).then(({ ran }) => resolve(ran), reject);
      }),
    onComplete(key) {
      running.get(key)?.();
      running.delete(key);
    },
  };
}

/** A job of croner. `atLeast` is more than the clocks of the replicas may differ. */
export function nightly(locks: Locks, pattern: string, job: () => Promise<void>): Cron {
  return new Cron(pattern, { protect: true, catch: true, unref: true }, async () => {
    await locks.once("nightly", { atLeast: "10s" }, job);
  });
}
