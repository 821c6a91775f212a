// Looking at locks without touching them: who holds, who waits, what is kept. Read at one revision each; times are for people,
// since etcd tells no time: how long a lease has left comes from the server in whole seconds, the rest from calendars.

import { UnsafeStoreError } from "../../core/errors.ts";
import type { HolderInfo, LockInfo, WaiterInfo } from "../../core/store.ts";
import type { System } from "../../core/system.ts";
import type { Deps, Order } from "./deps.ts";
import { hasRoom, isSemaphore } from "./line.ts";
import type { KeyValue, LeaseLife } from "./messages.ts";
import type { Names } from "./names.ts";
import type { EtcdPort, Patience } from "./port.ts";
import { FENCE_ROOM, fenceOf, readRow, type Row } from "./record.ts";

/** So many names are read at once. */
const PAGE = 500;

export interface Arranged {
  readonly holders: readonly Row[];
  readonly waiters: readonly Row[];
  /** Taken without a holder. */
  readonly kept: readonly Row[];
}

export class Sight {
  readonly #port: EtcdPort;
  readonly #names: Names;
  readonly #system: System;
  readonly #order: Order;

  constructor({ port, names, system, order }: Pick<Deps, "port" | "names" | "system" | "order">) {
    this.#port = port;
    this.#names = names;
    this.#system = system;
    this.#order = order;
  }

  async inspect(key: string, io: Patience): Promise<LockInfo | null> {
    const rows = await this.rows(key, io);
    return rows.length === 0 ? null : this.#info(key, await this.arrange(key, rows, io), new Map(), io);
  }

  async *list(prefix: string, limit: number, io: Patience): AsyncIterable<LockInfo> {
    const lives = new Map<number, LeaseLife>();
    let left = limit;
    for await (const [key, kvs] of this.#locks(prefix, io)) {
      if (left <= 0) return;
      const rows = orNull(() => kvs.map((kv) => readRow(kv, this.#names)));
      // A damaged record is named by `inspect`; the list goes on without it.
      if (rows === null) continue;
      const info = await this.#info(key, await this.arrange(key, rows, io), lives, io);
      if (info === null) continue;
      left -= 1;
      yield info;
    }
  }

  async rows(key: string, io: Patience): Promise<Row[]> {
    const { kvs } = await this.#port.range(this.#names.lock(key), io);
    return kvs.map((kv) => readRow(kv, this.#names));
  }

  /** Who holds and who waits, in order. One that wants several keys holds when it is its turn in all of them. */
  async arrange(key: string, rows: readonly Row[], io: Patience): Promise<Arranged> {
    const members = rows.filter((row) => !row.kept).sort((a, b) => a.revision - b.revision);
    const ids = new Set(members.map((row) => row.id));
    const lines = new Map<string, readonly Row[] | null>([[key, rows]]);
    for (const row of members) {
      if (row.words.keys === undefined || !isTurn(row, rows)) continue;
      for (const other of row.words.keys) {
        if (!lines.has(other)) lines.set(other, await this.#rowsOrNull(other, io));
      }
    }
    const holds = (row: Row): boolean =>
      (row.words.keys ?? [key]).every((one) => {
        const line = lines.get(one);
        // What cannot be read is the trouble of its own key.
        return line === null || (line !== undefined && isTurn(row, line));
      });
    return {
      holders: members.filter(holds),
      waiters: members.filter((row) => !holds(row)),
      kept: rows.filter((row) => row.kept && !ids.has(row.id)),
    };
  }

  async #rowsOrNull(key: string, io: Patience): Promise<Row[] | null> {
    const { kvs } = await this.#port.range(this.#names.lock(key), io);
    return orNull(() => kvs.map((kv) => readRow(kv, this.#names)));
  }

  /** What lies under each key, ours or not. */
  async *#locks(prefix: string, io: Patience): AsyncIterable<[string, KeyValue[]]> {
    const { end } = this.#names.locks;
    let key = this.#names.firstOf(prefix);
    let [lock, rows]: [string | null, KeyValue[]] = [null, []];
    for (;;) {
      const { kvs, more } = await this.#port.range({ key, end, limit: PAGE, order: 1 }, io);
      for (const kv of kvs) {
        const name = this.#names.keyOf(kv.key) ?? "";
        if (lock !== null && name !== lock) yield [lock, rows];
        if (!name.startsWith(prefix)) return;
        rows = name === lock ? [...rows, kv] : [kv];
        lock = name;
      }
      if (!more) break;
      key = `${kvs.at(-1)?.key}\0`;
    }
    if (lock !== null) yield [lock, rows];
  }

  async #info(
    key: string,
    { holders, waiters, kept }: Arranged,
    lives: Map<number, LeaseLife>,
    io: Patience,
  ): Promise<LockInfo | null> {
    const [any] = [...holders, ...kept, ...waiters];
    if (any === undefined) return null;
    const nowMs = this.#system.wallMs();
    for (const { lease } of [...holders, ...kept]) {
      if (!lives.has(lease)) lives.set(lease, await this.#port.leaseLife(lease, io));
    }
    const shown = [...holders, ...kept].map((row) => holderInfo(row, nowMs, lives.get(row.lease) ?? null));
    // Where places are not kept nobody can know who waits.
    const line = this.#order === "fifo" ? waiters.map((row) => waiterInfo(row, nowMs)) : null;
    const limit = Math.max(...[...holders, ...kept, ...waiters].map((row) => row.limit));
    return { key, limit, holders: shown, waiters: line };
  }
}

/** Null where a record is damaged. */
function orNull<T>(read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    if (error instanceof UnsafeStoreError) return null;
    throw error;
  }
}

/** Whether nobody in this line is in the way of a row. */
function isTurn(row: Row, line: readonly Row[]): boolean {
  const before = line.filter((one) => one.id !== row.id && (one.kept || one.revision < row.revision));
  if (before.some((one) => isSemaphore(one) !== isSemaphore(row))) return false;
  if (isSemaphore(row)) return hasRoom(before, { permits: row.words.permits, limit: row.limit });
  return before.every((one) => row.mode === "shared" && one.mode === "shared");
}

/** `life`: of its lease, where it was asked for; without it the longest that it can be. */
export function holderInfo(row: Row, nowMs: number, life: LeaseLife | null): HolderInfo {
  const { words, mode, kept } = row;
  const heldMs = Math.max(0, nowMs - words.sinceMs);
  return {
    label: words.label,
    mode,
    permits: words.permits,
    fence: fenceInUse(row),
    remainingMs: remainingMs(row, heldMs, life),
    heldMs,
    ...(words.waitingFor === undefined ? {} : { waitingFor: words.waitingFor }),
    ...(words.revoked === undefined ? {} : { revoked: words.revoked }),
    ...(kept ? { kept: true } : {}),
  };
}

function fenceInUse({ words, revision }: Row): bigint {
  return BigInt(words.used ?? words.fence ?? fenceOf(revision));
}

/** Whether a fence belongs to this row: its own, or one that it may have been handed on with. */
export function hasFence(row: Row, fence: bigint): boolean {
  const own = BigInt(row.words.fence ?? fenceOf(row.revision));
  const room = row.mode === "exclusive" && row.limit === 1 ? BigInt(FENCE_ROOM) : 0n;
  return own <= fence && fence <= own + room;
}

/** The lease says in whole seconds when it was last renewed: half a second is the least error, and it cannot have been before the grant. */
function remainingMs({ words, kept }: Row, heldMs: number, life: LeaseLife | null): number {
  if (life === null) return words.ttlMs + words.graceMs;
  // An ended lease has -1 seconds, as a number of 64 bits.
  const leftMs = life.ttl > BigInt(life.granted) ? 0 : Number(life.ttl) * 1_000;
  if (kept) return leftMs;
  const ageMs = Math.min(heldMs, Math.max(0, life.granted * 1_000 - leftMs - 500));
  return Math.max(0, words.ttlMs + words.graceMs - ageMs);
}

function waiterInfo({ words, mode }: Row, nowMs: number): WaiterInfo {
  const { label, permits, sinceMs } = words;
  return { label, mode, permits, waitedMs: Math.max(0, nowMs - sinceMs) };
}
