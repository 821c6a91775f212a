// Abandons many requests one by one, for stores whose steps serve one request. A damaged record does not keep
// the others from being abandoned. If the server is unreachable, the first error ends the round: core repeats
// it later, and retries within the call would load the server more than the outage itself (P20).

import { isUnsent } from "../../core/errors.ts";
import type { Io, Request } from "../../core/store.ts";

/**
 * Resolves with the requests that could not be abandoned, or rejects with the first error if none could.
 * `abandon` gets a context that retries nothing. `atOnce` limits the concurrent calls, so that a few
 * connections can serve other calls too.
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
        // The call has timed out, so core ignores its outcome.
        if (io.signal.aborted) throw new Error("the call timed out");
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
