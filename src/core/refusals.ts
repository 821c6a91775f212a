// How a wait that came to nothing is told: what was wanted, for how long, and who was in the way.

import { LockAbortedError, LockTimeoutError } from "./errors.ts";
import { showKey } from "./key.ts";
import type { HolderInfo } from "./store.ts";

export function abortedError(keys: readonly string[], signal: AbortSignal): LockAbortedError {
  return new LockAbortedError(`the wait for ${keys.map(showKey).join(", ")} was aborted by its signal`, {
    key: keys[0],
    cause: signal.reason,
  });
}

export function timeoutError(
  keys: readonly string[],
  waitedMs: number,
  holders: readonly HolderInfo[],
  before: number,
): LockTimeoutError {
  const who = holders.map(
    (holder) =>
      `${holder.label}${holder.kept ? " (kept closed)" : ""} for ${Math.round(holder.heldMs)} ms with fence ${holder.fence}, ${Math.round(holder.remainingMs)} ms left`,
  );
  const names = keys.map(showKey).join(", ");
  const by =
    who.length > 0 ? `held by ${who.join("; ")}` : before > 1 ? "others are before it in line" : "it is busy";
  return new LockTimeoutError(
    `${names} was not acquired within ${waitedMs} ms: ${by}. Wait longer (wait), or look with inspect() or \`holdfast inspect\``,
    {
      key: keys[0],
      waitedMs,
      holders: holders.map(({ label, mode, permits, fence, remainingMs, heldMs }) => ({
        label,
        mode,
        permits,
        fence: String(fence),
        remainingMs,
        heldMs,
      })),
    },
  );
}
