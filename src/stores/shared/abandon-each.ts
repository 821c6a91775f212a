// Abandons many requests one by one, for stores whose steps are about one request. A damaged record must not
// keep the others from being forgotten. A server that cannot be reached is asked once per sweep: the sweep of
// core comes back, and retries within the call would cost more than the outage itself (P20).

import { isUnsent } from "../../core/errors.ts";
import type { Io, Request } from "../../core/store.ts";

/**
 * Gives those that could not be abandoned. Rejects with the first error if that is all of them. `abandon`
 * gets a context that retries nothing. `atOnce`: so many are under way at a time, so that other calls get
 * their share of a few connections.
 */
export async function abandonEach(
  requests: readonly Request[],
  io: Io,
  abandon: (request: Request, once: Io) => Promise<unknown>,
  atOnce: number = requests.length,
): Promise<readonly Request[]> {
  const once: Io = { timeoutMs: 0, signal: io.signal, sleep: (ms) => io.sleep(ms) };
  const errors = new Map<Request, unknown>();
  const left = [...requests];
  let unreachable: unknown = null;
  const work = async (): Promise<void> => {
    for (let request = left.shift(); request !== undefined; request = left.shift()) {
      if (unreachable !== null) {
        errors.set(request, unreachable);
        continue;
      }
      try {
        // Nobody waits for the outcome any more.
        if (io.signal.aborted) throw new Error("it was given up");
        await abandon(request, once);
      } catch (error) {
        errors.set(request, error);
        if (isUnsent(error)) unreachable = error;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, requests.length) }, work));
  const failed = requests.filter((request) => errors.has(request));
  const [first] = failed;
  if (first !== undefined && failed.length === requests.length) throw errors.get(first);
  return failed;
}
