// Keys that are kept for a transaction of the caller's until it has locked their rows: an ordinary lease, for a moment. It is never
// renewed and never told to anybody; if nothing comes of it, it ends by itself.

import type { OpenStore, Request } from "../../core/store.ts";
import type { System } from "../../core/system.ts";
import type { Reserve } from "./table.ts";

/** Long enough for a few statements; a transaction that is rolled back sooner keeps its keys for the rest of it. */
const RESERVED_MS = 1_000;
/** Later than this no row is asked for any more: by then it might be somebody else's. */
const USED_WITHIN_MS = 500;

/** `end`: nobody will ask with that request again. */
export function reserving(
  store: Pick<OpenStore<null>, "attempt">,
  system: System,
  end: (request: Request) => void,
): Reserve {
  return async (keys, label, io) => {
    const [id, sentMs] = [system.randomId(), system.monoMs()];
    const lock = { mode: "exclusive", permits: 1, limit: 1, queue: false } as const;
    const times = { seq: 1, ttlMs: RESERVED_MS, graceMs: 0, keepMs: 0, fenceRoom: 0 };
    const request: Request = { keys, id, label, actor: id, ...lock, ...times };
    try {
      const answer = await store.attempt(request, io);
      if ("busy" in answer) return { busy: answer.busy.holders ?? [] };
      // Somebody uses the key as a semaphore.
      if (!("granted" in answer)) return { busy: [] };
      const over = (): boolean => system.monoMs() - sentMs >= USED_WITHIN_MS;
      return { id, fences: answer.granted.fences, over };
    } finally {
      end(request);
    }
  };
}
