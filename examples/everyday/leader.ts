// One of several replicas does the work that must have one doer, here a heartbeat into a log. When it goes, the next one takes over.

import type { Election, Lease, Locks } from "holdfast";

export interface Beat {
  readonly replica: string;
  /** The fence of the lease: larger for every later leader. */
  readonly term: bigint;
}

export function campaign(locks: Locks, replica: string, write: (beat: Beat) => void): Election {
  return locks.elect("heartbeat", { ttl: "10s", label: replica }, async (lease: Lease) => {
    while (!lease.signal.aborted) {
      write({ replica, term: lease.fence });
      await pause(20, lease.signal);
    }
  });
}

/** Ends early when the term does. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
  });
}
