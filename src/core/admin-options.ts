// `list` and `revoke`: their options, and the iteration over the locks of a store.

import { anyAnswer, type Caller } from "./util/store-call.ts";
import { InvalidArgumentError, StaleFenceError } from "./errors.ts";
import { showKey } from "./key.ts";
import { refuseUnknown, show } from "./options.ts";
import type { LockInfo, OpenStore, RevokeOptions } from "./store.ts";
import { forPeople } from "./deadlock/wait-note.ts";

export interface ListSpec {
  readonly prefix: string;
  readonly limit: number;
}

export function readListOptions(options: {
  readonly prefix?: string | undefined;
  readonly limit?: number | undefined;
}): ListSpec {
  refuseUnknown("list", options, ["prefix", "limit"]);
  const { prefix = "", limit = Number.POSITIVE_INFINITY } = options;
  if (typeof prefix !== "string")
    throw new InvalidArgumentError(`prefix must be a string, got ${show(prefix)}`);
  if (typeof limit !== "number" || !(limit >= 0))
    throw new InvalidArgumentError(`limit must be a number of at least 0, got ${show(limit)}`);
  return { prefix, limit };
}

/**
 * Each step of the iteration has a deadline of its own. If the first step loses its connection, the iteration
 * starts again; later, that would repeat locks.
 */
export async function* listLocks(
  store: OpenStore,
  caller: Caller,
  spec: ListSpec,
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
    // Do not wait for `return`: after a step that timed out it might never settle.
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
    throw new InvalidArgumentError(
      `reason must be a non-empty string, got ${show(reason)}: the holder and the event "revoked" show it`,
    );
  }
  if (fence !== undefined && typeof fence !== "bigint")
    throw new InvalidArgumentError(`fence must be a bigint, got ${show(fence)}`);
  return { reason, force, ...(fence === undefined ? {} : { fence }) };
}

/** The error for a `fence` that is not the fence of the holder. `info` describes the current holder. */
export function otherFence(key: string, fence: bigint, info: LockInfo | null): StaleFenceError {
  const seen = info?.holders[0]?.fence ?? 0n;
  return new StaleFenceError(
    `${showKey(key)} was not revoked: the holder with fence ${fence} is gone, ` +
      `and another one holds the key with fence ${seen}. Inspect the key and revoke that fence instead`,
    { key, fence, seen },
  );
}
