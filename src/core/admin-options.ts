// What people ask of a store without holding anything: the list of its locks, and the options of listing and revoking.

import { anyAnswer, type Caller } from "./util/store-call.ts";
import { InvalidArgumentError, StaleFenceError } from "./errors.ts";
import { showKey } from "./key.ts";
import { refuseUnknown } from "./options.ts";
import type { LockInfo, OpenStore, RevokeOptions } from "./store.ts";
import { forPeople } from "./deadlock/wait-note.ts";

export interface ListWish {
  readonly prefix: string;
  readonly limit: number;
}

export function readListOptions(options: {
  readonly prefix?: string | undefined;
  readonly limit?: number | undefined;
}): ListWish {
  refuseUnknown("list", options, ["prefix", "limit"]);
  const { prefix = "", limit = Number.POSITIVE_INFINITY } = options;
  if (typeof prefix !== "string") throw new InvalidArgumentError("prefix of list is not a string");
  if (typeof limit !== "number" || !(limit >= 0))
    throw new InvalidArgumentError("limit of list is not a count");
  return { prefix, limit };
}

/**
 * Every step of the list has a deadline of its own. A listing that loses its connection in the first step
 * restarts.
 */
export async function* listed(
  store: OpenStore,
  caller: Caller,
  spec: ListWish,
  stepMs: number,
): AsyncIterable<LockInfo> {
  const begin = (): AsyncIterator<LockInfo> =>
    store.list(spec, caller.io("listing", stepMs))[Symbol.asyncIterator]();
  let steps = begin();
  let tries = 0;
  const first = (): Promise<IteratorResult<LockInfo>> => {
    tries += 1;
    if (tries > 1) steps = begin();
    return steps.next();
  };
  try {
    for (let isFirst = true; ; isFirst = false) {
      const step = isFirst
        ? await caller.call("listing", undefined, stepMs, first, anyAnswer)
        : await caller.call("listing", undefined, stepMs, () => steps.next());
      if (step.done === true) return;
      yield forPeople(step.value);
    }
  } finally {
    // Not waited for: behind a step that was given up it would wait for ever.
    steps.return?.().catch(() => {});
  }
}

export function readRevokeOptions(options: {
  readonly fence?: bigint | undefined;
  readonly reason: string;
  readonly force?: boolean | undefined;
}): RevokeOptions {
  refuseUnknown("revoke", options, ["fence", "reason", "force"]);
  const { fence, reason, force = false } = options;
  if (typeof reason !== "string" || reason === "") {
    throw new InvalidArgumentError("revoke needs a reason: the holder and the audit event show it");
  }
  if (fence !== undefined && typeof fence !== "bigint")
    throw new InvalidArgumentError("fence of revoke is a bigint");
  return { reason, force, ...(fence === undefined ? {} : { fence }) };
}

/** `info`: who holds the key instead. */
export function otherFence(key: string, fence: bigint, info: LockInfo | null): StaleFenceError {
  const seen = info?.holders[0]?.fence ?? 0n;
  return new StaleFenceError(
    `${showKey(key)} was not revoked: the holder with fence ${fence} is gone, ` +
      `the key is now held with fence ${seen}`,
    { key, fence, seen },
  );
}
