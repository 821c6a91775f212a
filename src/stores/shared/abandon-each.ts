// Abandons many requests one by one, for stores whose steps are about one request. A damaged record must
// not keep the others from being forgotten.

import type { Request } from "../../core/store.ts";

/** Gives those that could not be abandoned. Rejects with the first error if that is all of them. */
export async function abandonEach(
  requests: readonly Request[],
  abandon: (request: Request) => Promise<unknown>,
): Promise<readonly Request[]> {
  const outcomes = await Promise.allSettled(requests.map(async (request) => abandon(request)));
  const failed = requests.filter((_request, at) => outcomes[at]?.status === "rejected");
  const [first] = outcomes;
  if (first?.status === "rejected" && failed.length === requests.length) throw first.reason;
  return failed;
}
