// Inspecting, listing and revoking locks. Each lock is read at one revision. Times are for people: etcd
// reports the remaining time of a lease in whole seconds, and the rest comes from wall clocks.

import { UnsafeStoreError } from "../../core/errors.ts";
import type { HolderInfo, LockInfo, RevokeAnswer, RevokeOptions, WaiterInfo } from "../../core/store.ts";
import type { CallSignal } from "./cluster/member.ts";
import type { Keys } from "./keys.ts";
import type { KeyValue, LeaseLife, LooseOp } from "./protocol/messages.ts";
import { hasRoom, isSemaphore, wasModifiedAt } from "./queue-rules.ts";
import { FENCE_ROOM, fenceOf, readRow, type Row } from "./record.ts";
import type { StoreContext } from "./requests.ts";

/** So many keys are read at once. */
const PAGE = 500;
/** A holder may write its record between the read and the revocation. */
const REVOKE_TRIES = 5;

interface Queue {
  readonly holders: readonly Row[];
  readonly waiters: readonly Row[];
  /** Kept records whose holder is gone. */
  readonly kept: readonly Row[];
}

export class Inspector {
  readonly #context: StoreContext;

  constructor(context: StoreContext) {
    this.#context = context;
  }

  async inspect(key: string, io: CallSignal): Promise<LockInfo | null> {
    const rows = await this.#rows(key, io);
    return rows.length === 0 ? null : this.#info(key, await this.#sort(key, rows, io), new Map(), io);
  }

  async *list(prefix: string, limit: number, io: CallSignal): AsyncIterable<LockInfo> {
    const lives = new Map<number, LeaseLife>();
    let left = limit;
    for await (const [key, kvs] of this.#locks(prefix, io)) {
      if (left <= 0) return;
      const rows = unlessDamaged(() => this.#parse(kvs));
      // `inspect` reports a damaged record; the list goes on without it.
      if (rows === null) continue;
      const info = await this.#info(key, await this.#sort(key, rows, io), lives, io);
      if (info === null) continue;
      left -= 1;
      yield info;
    }
  }

  /** Marks the record of a holder, or deletes it by force, and leaves a note in the inbox of its process. */
  async revoke(key: string, options: RevokeOptions, io: CallSignal): Promise<RevokeAnswer> {
    const { client, keys } = this.#context;
    const { fence } = options;
    for (let tries = 0; tries < REVOKE_TRIES; tries += 1) {
      const rows = await this.#rows(key, io);
      const { holders, kept } = await this.#sort(key, rows, io);
      if (holders.length + kept.length === 0) return "free";
      const chosen = [...holders, ...kept].filter((row) => fence === undefined || hasFence(row, fence));
      if (chosen.length === 0) return "other-fence";
      const keptOfChosen = rows.filter((row) => row.isKept && chosen.some((one) => one.id === row.id));
      const { succeeded } = await client.txn(
        {
          compare: chosen.map(({ name, modRevision }) => wasModifiedAt(name, modRevision)),
          success: [
            ...chosen.filter((row) => !row.isKept).flatMap((row) => revokeRow(row, options, keys)),
            ...keptOfChosen.map(({ name }) => ({ delete: { key: name } })),
          ],
        },
        io,
      );
      if (succeeded) return "revoked";
    }
    throw new Error("its holder keeps writing its record");
  }

  async #rows(key: string, io: CallSignal): Promise<Row[]> {
    const { client, keys } = this.#context;
    return this.#parse((await client.range(keys.lock(key), io)).kvs);
  }

  #parse(kvs: readonly KeyValue[]): Row[] {
    return kvs.map((kv) => readRow(kv, this.#context.keys));
  }

  /**
   * Holders and waiters in order. A request for several keys holds if nothing is ahead of it in any of them.
   */
  async #sort(key: string, rows: readonly Row[], io: CallSignal): Promise<Queue> {
    const { client, keys } = this.#context;
    const members = rows.filter((row) => !row.isKept).sort((a, b) => a.revision - b.revision);
    const ids = new Set(members.map((row) => row.id));
    const queues = new Map<string, readonly Row[] | null>([[key, rows]]);
    for (const row of members) {
      if (row.details.keys === undefined || !isFirst(row, rows)) continue;
      for (const other of row.details.keys) {
        if (queues.has(other)) continue;
        const { kvs } = await client.range(keys.lock(other), io);
        queues.set(
          other,
          unlessDamaged(() => this.#parse(kvs)),
        );
      }
    }
    const holds = (row: Row): boolean =>
      (row.details.keys ?? [key]).every((one) => {
        const queue = queues.get(one);
        // Damage is reported for its own key only.
        return queue === null || (queue !== undefined && isFirst(row, queue));
      });
    return {
      holders: members.filter(holds),
      waiters: members.filter((row) => !holds(row)),
      kept: rows.filter((row) => row.isKept && !ids.has(row.id)),
    };
  }

  /** The keys of each lock, whoever wrote them. */
  async *#locks(prefix: string, io: CallSignal): AsyncIterable<[string, KeyValue[]]> {
    const { client, keys } = this.#context;
    const { end } = keys.locks;
    let key = keys.firstOf(prefix);
    let [lock, rows]: [string | null, KeyValue[]] = [null, []];
    for (;;) {
      const { kvs, more } = await client.range({ key, end, limit: PAGE, order: 1 }, io);
      for (const kv of kvs) {
        const name = keys.lockOf(kv.key) ?? "";
        if (lock !== null && name !== lock) yield [lock, rows];
        if (!name.startsWith(prefix)) return;
        if (name !== lock) rows = [];
        rows.push(kv);
        lock = name;
      }
      if (!more) break;
      key = `${kvs.at(-1)?.key}\0`;
    }
    if (lock !== null) yield [lock, rows];
  }

  async #info(
    key: string,
    { holders, waiters, kept }: Queue,
    lives: Map<number, LeaseLife>,
    io: CallSignal,
  ): Promise<LockInfo | null> {
    const { client, system, order } = this.#context;
    const all = [...holders, ...kept, ...waiters];
    if (all.length === 0) return null;
    const nowMs = system.wallMs();
    for (const { lease } of [...holders, ...kept]) {
      if (!lives.has(lease)) lives.set(lease, await client.leaseLife(lease, io));
    }
    return {
      key,
      limit: Math.max(...all.map((row) => row.limit)),
      holders: [...holders, ...kept].map((row) => holderInfo(row, nowMs, lives.get(row.lease) ?? null)),
      // Without a queue nobody knows who waits.
      waiters: order === "fifo" ? waiters.map((row) => waiterInfo(row, nowMs)) : null,
    };
  }
}

/** Null if a record is damaged. */
function unlessDamaged<T>(read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    if (error instanceof UnsafeStoreError) return null;
    throw error;
  }
}

/** The note has the lease of the holder, so it goes with the holder's process at the latest. */
function revokeRow(
  { name, lease, details, id }: Row,
  { reason, force }: RevokeOptions,
  keys: Keys,
): LooseOp[] {
  const note = { put: { key: keys.inbox(details.proc).key + id, value: reason, lease } };
  if (force) return [{ delete: { key: name } }, note];
  return [{ put: { key: name, value: JSON.stringify({ ...details, revoked: reason }), lease } }, note];
}

/** Whether nothing in this queue blocks a row. */
function isFirst(row: Row, queue: readonly Row[]): boolean {
  const ahead = queue.filter((one) => one.id !== row.id && (one.isKept || one.revision < row.revision));
  if (ahead.some((one) => isSemaphore(one) !== isSemaphore(row))) return false;
  if (isSemaphore(row)) return hasRoom(ahead, { permits: row.details.permits, limit: row.limit });
  return ahead.every((one) => row.mode === "shared" && one.mode === "shared");
}

/** `life`: of its lease. If it is null, `remainingMs` is the longest possible. */
export function holderInfo(row: Row, nowMs: number, life: LeaseLife | null): HolderInfo {
  const { details, mode, isKept, revision } = row;
  const heldMs = Math.max(0, nowMs - details.sinceMs);
  return {
    label: details.label,
    mode,
    permits: details.permits,
    fence: BigInt(details.used ?? details.fence ?? fenceOf(revision)),
    remainingMs: remainingMs(row, heldMs, life),
    heldMs,
    ...(details.waitingFor === undefined ? {} : { waitingFor: details.waitingFor }),
    ...(details.revoked === undefined ? {} : { revoked: details.revoked }),
    ...(isKept ? { kept: true } : {}),
  };
}

/** Whether a fence belongs to this row: its own, or one that it may have used for a hand-off. */
function hasFence(row: Row, fence: bigint): boolean {
  const own = BigInt(row.details.fence ?? fenceOf(row.revision));
  const room = row.mode === "exclusive" && row.limit === 1 ? BigInt(FENCE_ROOM) : 0n;
  return own <= fence && fence <= own + room;
}

/** The lease shows in whole seconds when it was renewed, so half a second is the least error. */
function remainingMs({ details, isKept }: Row, heldMs: number, life: LeaseLife | null): number {
  if (life === null) return details.ttlMs + details.graceMs;
  // An expired lease has -1 seconds, as an unsigned number of 64 bits.
  const leftMs = life.ttl > BigInt(life.granted) ? 0 : Number(life.ttl) * 1_000;
  if (isKept) return leftMs;
  // It cannot have been renewed before the grant.
  const ageMs = Math.min(heldMs, Math.max(0, life.granted * 1_000 - leftMs - 500));
  return Math.max(0, details.ttlMs + details.graceMs - ageMs);
}

function waiterInfo({ details, mode }: Row, nowMs: number): WaiterInfo {
  const { label, permits, sinceMs } = details;
  return { label, mode, permits, waitedMs: Math.max(0, nowMs - sinceMs) };
}
