// One attempt for callers that do not wait. It leaves no place in line, whatever the answer.

import type { TurnDeps } from "./acquire.ts";
import { callTimeoutMs } from "./call.ts";
import { isUnsent, StoreUnavailableError } from "./errors.ts";
import type { Hold } from "./hold.ts";
import { showKey } from "./key.ts";
import { limitConflict, makeRequest, type TurnWish, unconfirmedError } from "./request.ts";
import type { Busy } from "./store.ts";

/** A hold, or who has the key. */
export async function attemptOnce(deps: TurnDeps, wish: TurnWish): Promise<{ hold: Hold } | { busy: Busy }> {
  const request = makeRequest(wish, deps.system.randomId(), 1, false);
  const sentAt = deps.holds.now();
  try {
    const answer = await deps.caller.call(
      "acquire",
      request.keys[0],
      callTimeoutMs(request.ttlMs),
      (io) => deps.store.attempt(request, io),
      // After any other answer the first try may still be granted, and nobody would release that grant.
      (said) => "granted" in said,
    );
    if ("busy" in answer) return answer;
    if ("conflict" in answer) throw limitConflict(answer.conflict, wish.shape);
    if ("unconfirmed" in answer) throw unconfirmedError(request, answer.unconfirmed.why);
    const hold = "granted" in answer ? deps.holds.begin(request, wish.shape, answer.granted, sentAt) : null;
    if (hold !== null) return { hold };
    throw new StoreUnavailableError(
      `the store's answer about ${showKey(request.keys[0] as string)} came too late`,
    );
  } catch (error) {
    // Whether it was granted is unknown: it is not held (P8), and the store is told until it knows that too.
    if (isUnsent(error)) deps.store.forget?.(request);
    else deps.holds.abandonment.add(request);
    throw error;
  }
}
