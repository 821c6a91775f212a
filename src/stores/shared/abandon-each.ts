// Abandons many requests one by one, for stores whose steps are about one request. A damaged record must not
// keep the others from being forgotten.

import type { Io, Request } from "../../core/store.ts";

/**
 * Gives those that could not be abandoned. Rejects with the first error if that is all of them. `atOnce`: so
 * many are under way at a time, so that other calls get their share of a few connections.
 */
export async function abandonEach(
  requests: readonly Request[],
  io: Pick<Io, "signal">,
  abandon: (request: Request) => Promise<unknown>,
  atOnce: number = requests.length,
): Promise<readonly Request[]> {
  const errors = new Map<Request, unknown>();
  const left = [...requests];
  const work = async (): Promise<void> => {
    for (let request = left.shift(); request !== undefined; request = left.shift()) {
      try {
        // Nobody waits for the outcome any more.
        if (io.signal.aborted) throw new Error("it was given up");
        await abandon(request);
      } catch (error) {
        errors.set(request, error);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, requests.length) }, work));
  const failed = requests.filter((request) => errors.has(request));
  const [first] = failed;
  if (first !== undefined && failed.length === requests.length) throw errors.get(first);
  return failed;
}
