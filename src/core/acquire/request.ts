// Makes the request of a spec.

import { type LockError, StoreUnavailableError } from "../errors.ts";
import { showKey } from "../key.ts";
import type { LockSpec } from "../options.ts";
import type { Request } from "../store.ts";

/** Without object spread, which took a tenth of the time of a local acquire. */
export function makeRequest(
  keys: readonly string[],
  { mode, permits, limit, ttlMs, graceMs, keepMs, reservedFences }: LockSpec,
  label: string,
  actor: string,
  id: string,
  seq: number,
  queue: boolean,
): Request {
  return { keys, id, seq, mode, permits, limit, ttlMs, graceMs, keepMs, reservedFences, label, actor, queue };
}

/** The error of a grant that the store could not make safe. It counts as not granted (P8). */
export function unconfirmedError(request: Request, why: string): LockError {
  const key = request.keys[0] as string;
  return new StoreUnavailableError(
    `the grant of ${showKey(key)} is not safe and was released, because ${why}`,
    {
      key,
    },
  );
}
