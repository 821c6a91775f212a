// `inspect` and `list`. They first check which processes of a record are alive, so that they do not show dead
// ones.

import { UnsafeStoreError } from "../../core/errors.ts";
import type { Io, LockInfo } from "../../core/store.ts";
import type { System } from "../../core/system.ts";
import { lockInfo } from "../shared/record.ts";
import type { Session } from "./session.ts";

/** After this many keys, other work of the process runs. */
const KEYS_AT_ONCE = 256;

export async function inspectKey(session: Session, key: string, nowMs: number): Promise<LockInfo | null> {
  const others = session.steps.read([key], (_ledger, record) => {
    const { holders, line } = record(key);
    return [...holders, ...line].flatMap(({ proc }) => (proc === "" || proc === session.name ? [] : [proc]));
  });
  if (others.length > 0) await session.peers.ask([...new Set(others)]);
  return session.steps.read([key], (ledger, record) => {
    ledger.sweepQueue(record(key));
    return lockInfo(record(key), nowMs);
  });
}

/**
 * Keys whose records are damaged. `list` omits them, so that one damaged record does not hide all others
 * (P17).
 */
export function damagedKeys(session: Session): string[] {
  return keysIn(session).filter((key) => {
    try {
      session.steps.read([key], () => {});
      return false;
    } catch (error) {
      return error instanceof UnsafeStoreError;
    }
  });
}

export async function* listKeys(
  session: Session,
  options: { readonly prefix: string; readonly limit: number },
  system: System,
  io: Io,
): AsyncIterable<LockInfo> {
  let left = options.limit;
  let looked = 0;
  for (const key of keysIn(session)) {
    if (left <= 0) return;
    if (!key.startsWith(options.prefix)) continue;
    looked += 1;
    if (looked % KEYS_AT_ONCE === 0) await io.sleep(0);
    const info = await inspectKey(session, key, system.monoMs()).catch((error: unknown) => {
      if (error instanceof UnsafeStoreError) return null;
      throw error;
    });
    if (info === null) continue;
    left -= 1;
    yield info;
  }
}

function keysIn(session: Session): string[] {
  session.log.refresh();
  return [...session.log.entries()].map(([jsonKey]) => JSON.parse(jsonKey) as string);
}
