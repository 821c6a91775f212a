// The rules of a store with one record per key: which request is granted, in which order and with which
// fence. A Ledger serves one step of a store. It never waits, never reads a clock and changes only the
// records that it was given. The caller makes the step atomic: by a single thread, or by a latch around
// the records.
//
// A step has four parts:
// 1. Sweep: remove holders that have expired or whose process has died. If `keepMs` is not over, the
//    holder's row stays without an owner.
// 2. Enqueue: a new request joins the end of the queue. A known one keeps its position; this is its
//    heartbeat.
// 3. Grant: while the first live waiter fits beside the holders, it becomes a holder. The first waiter
//    that does not fit stops the queue: no reader overtakes a waiting writer, and no small request a
//    large one.
// 4. Claim: a waiter that became a holder between its attempts has the key reserved for its claim window,
//    counted from its last heartbeat. Its next attempt gets the full ttl.

import type { Request, RevokeAnswer, RevokeOptions } from "../../core/store.ts";
import type { LedgerGrant } from "./grant.ts";
import type { HolderRow, KeyRecord, WaiterRow } from "./record.ts";
import { claimFor, fits, holder, holds, newHolder, newWaiter, dequeue } from "./rows.ts";

/** The clocks, the caller and the records of one step. */
export interface StepContext {
  /** The store's clock. */
  readonly nowMs: number;
  /** The wall clock in µs. New fences are at least this, so that they grow even after the record was lost. */
  readonly wallUs: number;
  /** The id of the opened store that runs the step. */
  readonly self: string;
  readonly claimMs: number;
  alive(proc: string): boolean;
  /**
   * false: the step grants nothing, because another server may have made grants that this one does not
   * know.
   */
  readonly mayGrant?: boolean | undefined;
  /** The record of a key, or null if the step has not loaded it. */
  record(key: string): KeyRecord | null;
}

/** A notification to send after the step: a waiter should attempt again, or a holder was revoked. */
export interface Wake {
  readonly proc: string;
  readonly id: string;
  readonly key: string;
  readonly revoked?: string;
}

export type LedgerAnswer =
  | { readonly granted: LedgerGrant }
  | { readonly busy: true }
  | { readonly ended: true };

/** A step passes over a waiter whose last heartbeat is older than this share of its claim window. */
const FRESH_SHARE = 0.5;
/** A waiter without a heartbeat for this many claim windows leaves the queue. */
const FORGOTTEN_CLAIMS = 5;

export class Ledger {
  readonly #context: StepContext;
  /** The notifications of this step, in order. */
  readonly wakes: Wake[] = [];

  constructor(context: StepContext) {
    this.#context = context;
  }

  attempt(request: Request): LedgerAnswer {
    const records = this.#records(request.keys);
    for (const record of records) this.sweep(record);
    if (holds(records, request.id)) return this.#grantAgain(records, request);
    if (records.some((record) => holder(record, request.id) !== undefined)) {
      // An operator revoked some of the keys by force. A request holds all of its keys or none.
      this.abandon(request.keys, request.id);
      return { ended: true };
    }
    for (const record of records) this.#enqueue(record, request);
    for (const record of records) this.#grantWaiters(record);
    if (holds(records, request.id)) return this.#grantAgain(records, request);
    if (!request.queue) for (const record of records) dequeue(record, request.id);
    return { busy: true };
  }

  renew(
    keys: readonly string[],
    id: string,
    ttlMs: number,
    graceMs: number,
    used: readonly number[],
    label: string,
  ): "renewed" | "gone" | { readonly revoked: string } {
    const records = this.#records(keys);
    for (const record of records) this.sweep(record);
    if (!holds(records, id)) return "gone";
    const rows = records.map((record) => holder(record, id) as HolderRow);
    const revoked = rows.find((row) => row.revoked !== undefined)?.revoked;
    if (revoked !== undefined) return { revoked };
    rows.forEach((row, i) => {
      // Never shorten: of two concurrent renewals, the longer one may have been confirmed first.
      row.until = Math.max(row.until, this.#context.nowMs + ttlMs + graceMs);
      row.used = used[i] ?? row.used;
      row.label = label;
    });
    return "renewed";
  }

  /** `used`: the last used fence of each key. The reserved fences above it may be granted again. */
  release(keys: readonly string[], id: string, used: readonly number[]): boolean {
    const records = this.#records(keys);
    for (const record of records) this.sweep(record);
    const held = holds(records, id);
    records.forEach((record, i) => {
      const row = holder(record, id);
      if (row !== undefined) this.#removeHolder(record, row, used[i]);
    });
    for (const record of records) this.#grantWaiters(record);
    return held;
  }

  abandon(keys: readonly string[], id: string): void {
    const records = this.#records(keys);
    for (const record of records) {
      this.sweep(record);
      dequeue(record, id);
      const row = holder(record, id);
      if (row !== undefined) this.#removeHolder(record, row);
    }
    for (const record of records) this.#grantWaiters(record);
  }

  owns(keys: readonly string[], id: string): boolean {
    const records = this.#records(keys);
    for (const record of records) this.sweep(record);
    return holds(records, id) && records.every((record) => holder(record, id)?.revoked === undefined);
  }

  note(keys: readonly string[], id: string, waitingFor: string | null): void {
    for (const record of this.#records(keys)) {
      const row = holder(record, id);
      if (row === undefined) continue;
      if (waitingFor === null) delete row.waitingFor;
      else row.waitingFor = waitingFor;
    }
  }

  revoke(record: KeyRecord, options: RevokeOptions): RevokeAnswer {
    this.sweep(record);
    if (record.holders.length === 0) return "free";
    const fence = options.fence === undefined ? null : Number(options.fence);
    const rows = record.holders.filter(
      (row) => fence === null || (row.fence <= fence && fence <= row.fence + row.room),
    );
    if (rows.length === 0) return "other-fence";
    for (const row of rows) {
      row.revoked = options.reason;
      row.keepUntil = 0;
      if (options.force || row.proc === "") record.holders.splice(record.holders.indexOf(row), 1);
      if (row.proc !== "")
        this.wakes.push({ proc: row.proc, id: row.id, key: record.key, revoked: options.reason });
    }
    this.#grantWaiters(record);
    return "revoked";
  }

  sweep(record: KeyRecord): void {
    const { nowMs, self, claimMs } = this.#context;
    for (const row of [...record.holders]) {
      if (row.until <= nowMs || (row.proc !== "" && row.proc !== self && !this.#context.alive(row.proc))) {
        this.#removeHolder(record, row);
      }
    }
    if (record.line.some((row) => nowMs - row.seen > claimMs * FORGOTTEN_CLAIMS)) {
      record.line = record.line.filter((row) => nowMs - row.seen <= claimMs * FORGOTTEN_CLAIMS);
    }
  }

  /** Also removes dead waiters. Not part of every step: each check asks the kernel or the server. */
  sweepQueue(record: KeyRecord): void {
    this.sweep(record);
    record.line = record.line.filter(
      (row) => row.proc === this.#context.self || this.#context.alive(row.proc),
    );
  }

  #records(keys: readonly string[]): KeyRecord[] {
    return keys.map((key) => {
      const record = this.#context.record(key);
      if (record === null) throw new Error(`the step does not have the record of ${JSON.stringify(key)}`);
      return record;
    });
  }

  /** Removes a holder, or leaves its row without an owner while `keepUntil` keeps the key taken. */
  #removeHolder(record: KeyRecord, row: HolderRow, used?: number): void {
    // Fences must not run ahead of the clock, so that they grow even after the record was lost (P3).
    // Unless there was a later grant, the reserved fences that the holder has not used return to the key.
    // If the last used fence is unknown, all of them count as used. The clock cannot tell: it may have
    // been set back.
    if (used !== undefined && record.last === row.fence + row.room)
      record.last = Math.min(record.last, Math.max(row.fence, row.used, used));
    if (row.proc !== "" && row.keepUntil > this.#context.nowMs) {
      row.id = "";
      row.proc = "";
      row.until = row.keepUntil;
      delete row.waitingFor;
    } else {
      record.holders.splice(record.holders.indexOf(row), 1);
    }
  }

  #enqueue(record: KeyRecord, request: Request): void {
    const { nowMs, self } = this.#context;
    const place = record.line.find((row) => row.id === request.id);
    if (place !== undefined) {
      place.seq = Math.max(place.seq, request.seq);
      place.seen = nowMs;
      place.label = request.label;
      return;
    }
    record.line.push(newWaiter(request, self, nowMs));
  }

  #grantWaiters(record: KeyRecord): void {
    if (this.#context.mayGrant === false) return;
    for (;;) {
      const next = this.#nextWaiter(record);
      if (next === null || !fits(record, next)) return;
      const records = next.keys === undefined ? [record] : this.#recordsOf(next);
      if (records === null) {
        this.wakes.push({ proc: next.proc, id: next.id, key: record.key });
        return;
      }
      if (!records.every((one) => this.#nextWaiter(one)?.id === next.id && fits(one, next))) return;
      this.#reserve(records, next);
    }
  }

  /** The swept records of all keys of a waiter, or null if the step has not loaded all of them. */
  #recordsOf(waiter: WaiterRow): KeyRecord[] | null {
    const records = (waiter.keys as readonly string[]).map((key) => this.#context.record(key));
    if (records.includes(null)) return null;
    for (const record of records as KeyRecord[]) this.sweep(record);
    return records as KeyRecord[];
  }

  /**
   * The first waiter with a recent heartbeat. Dead waiters leave the queue; late ones are only passed
   * over.
   */
  #nextWaiter(record: KeyRecord): WaiterRow | null {
    const { nowMs, claimMs, self } = this.#context;
    for (const row of [...record.line]) {
      if (nowMs - row.seen > claimFor(claimMs, row.ttlMs) * FRESH_SHARE) continue;
      if (row.proc === self || this.#context.alive(row.proc)) return row;
      dequeue(record, row.id);
    }
    return null;
  }

  #reserve(records: readonly KeyRecord[], waiter: WaiterRow): void {
    const { nowMs, wallUs } = this.#context;
    const claimMs = claimFor(this.#context.claimMs, waiter.ttlMs);
    // Only an exclusive holder gets fences for hand-offs: beside others, it could use one after a larger
    // grant.
    const alone = waiter.mode === "exclusive" && waiter.limit === 1;
    const room = alone ? (waiter.room ?? Math.floor(waiter.ttlMs * 1_000)) : 0;
    for (const record of records) {
      const fence = Math.max(record.last + 1, Math.floor(wallUs));
      dequeue(record, waiter.id);
      record.last = fence + room;
      record.limit = record.holders.length === 0 ? waiter.limit : Math.max(record.limit, waiter.limit);
      record.holders.push(newHolder(waiter, { fence, room, nowMs, claimMs }));
    }
    this.wakes.push({ proc: waiter.proc, id: waiter.id, key: (records[0] as KeyRecord).key });
  }

  /**
   * Gives a holder that attempts again its full ttl: after a grant, after a wake-up, and after an attempt
   * whose reply was lost (P8).
   */
  #grantAgain(records: readonly KeyRecord[], request: Request): LedgerAnswer {
    const rows = records.map((record) => holder(record, request.id) as HolderRow);
    if (rows.some((row) => row.revoked !== undefined)) return { ended: true };
    for (const row of rows)
      row.until = Math.max(row.until, this.#context.nowMs + request.ttlMs + request.graceMs);
    const own = this.wakes.findIndex((wake) => wake.id === request.id);
    if (own !== -1) this.wakes.splice(own, 1);
    return {
      granted: {
        fences: rows.map((row) => row.fence),
        room: (rows[0] as HolderRow).room,
        validMs: request.ttlMs,
      },
    };
  }
}
