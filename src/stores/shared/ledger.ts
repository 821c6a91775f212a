// The rules of a store that keeps a record per key: who is granted what, in which order, with which fence.
// One Ledger serves one step of one store. It never waits, never reads a clock of its own and touches only records that
// it was given; the step is atomic because its caller makes it so (one thread, or a latch around the records).
//
// How a step is decided:
// 1. Sweep: what has expired or whose process has died is taken out; what must stay taken (`keepMs`) stays without an owner.
// 2. Seat: whoever asks gets a place at the end of the line, or keeps the one it has and is seen alive.
// 3. Settle: as long as the first live waiter fits beside the holders it becomes a holder. The first that does not fit
//    stops the line: no reader overtakes a waiting writer, no small request a large one, so nobody starves.
// 4. A waiter that was chosen while it slept has the key reserved for its claim window only, counted from its last
//    heartbeat. Its next attempt is granted and gets the full ttl.

import type { Request, RevokeAnswer, RevokeOptions } from "../../core/store.ts";
import type { LedgerGrant } from "./grant.ts";
import type { HolderRow, KeyRecord, WaiterRow } from "./record.ts";
import { claimFor, fits, holder, holds, newHolder, newWaiter, unseat } from "./rows.ts";

/** What one step knows of its surroundings. */
export interface Moment {
  /** The store's clock. */
  readonly nowMs: number;
  /** Where fences start, so that they grow even when the record was lost. */
  readonly wallUs: number;
  /** The opened store that asks. */
  readonly self: string;
  readonly claimMs: number;
  alive(proc: string): boolean;
  /** false: nobody is granted anything in this step, because another server may have granted what this one does not know of. */
  readonly mayGrant?: boolean | undefined;
  /** The record of a key, or null when this step does not have it in its hands. */
  record(key: string): KeyRecord | null;
}

/** Who is to be notified after the step: a waiter that should attempt again, or a holder that was revoked. */
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

/** A waiter whose last heartbeat is older than half its claim window could not use the rest of it: it is passed over. */
const FRESH_SHARE = 0.5;
/** One that has been silent for so many claim windows has lost its place. */
const FORGOTTEN_CLAIMS = 5;

export class Ledger {
  readonly #moment: Moment;
  /** Who is to be told, in order. */
  readonly wakes: Wake[] = [];

  constructor(moment: Moment) {
    this.#moment = moment;
  }

  attempt(request: Request): LedgerAnswer {
    const records = this.#records(request.keys);
    for (const record of records) this.sweep(record);
    if (holds(records, request.id)) return this.#rearm(records, request);
    if (records.some((record) => holder(record, request.id) !== undefined)) {
      // Part of it was taken away by force: the rest is of no use to anybody.
      this.abandon(request.keys, request.id);
      return { ended: true };
    }
    for (const record of records) this.#seat(record, request);
    for (const record of records) this.#settle(record);
    if (holds(records, request.id)) return this.#rearm(records, request);
    if (!request.queue) for (const record of records) unseat(record, request.id);
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
      // Never earlier: of two renewals under way the one that asked for more may have been confirmed already.
      row.until = Math.max(row.until, this.#moment.nowMs + ttlMs + graceMs);
      row.used = used[i] ?? row.used;
      row.label = label;
    });
    return "renewed";
  }

  /** `used`: the last fence of each key that was used; numbers above it return to the key. */
  release(keys: readonly string[], id: string, used: readonly number[]): boolean {
    const records = this.#records(keys);
    for (const record of records) this.sweep(record);
    const held = holds(records, id);
    records.forEach((record, i) => {
      const row = holder(record, id);
      if (row !== undefined) this.#let(record, row, used[i]);
    });
    for (const record of records) this.#settle(record);
    return held;
  }

  abandon(keys: readonly string[], id: string): void {
    const records = this.#records(keys);
    for (const record of records) {
      this.sweep(record);
      unseat(record, id);
      const row = holder(record, id);
      if (row !== undefined) this.#let(record, row);
    }
    for (const record of records) this.#settle(record);
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
    this.#settle(record);
    return "revoked";
  }

  sweep(record: KeyRecord): void {
    const { nowMs, self, claimMs } = this.#moment;
    for (const row of [...record.holders]) {
      if (row.until <= nowMs || (row.proc !== "" && row.proc !== self && !this.#moment.alive(row.proc))) {
        this.#let(record, row);
      }
    }
    if (record.line.some((row) => nowMs - row.seen > claimMs * FORGOTTEN_CLAIMS)) {
      record.line = record.line.filter((row) => nowMs - row.seen <= claimMs * FORGOTTEN_CLAIMS);
    }
  }

  /** Takes the dead out of the line too. Not done in every step: each costs a question to the kernel or the server. */
  sweepLine(record: KeyRecord): void {
    this.sweep(record);
    record.line = record.line.filter((row) => row.proc === this.#moment.self || this.#moment.alive(row.proc));
  }

  #records(keys: readonly string[]): KeyRecord[] {
    return keys.map((key) => {
      const record = this.#moment.record(key);
      if (record === null) throw new Error(`the step does not have the record of ${JSON.stringify(key)}`);
      return record;
    });
  }

  /** Takes a holder out, or leaves its shadow where the key must stay taken. */
  #let(record: KeyRecord, row: HolderRow, used?: number): void {
    // Unless others were granted since: what the holder did not use returns to the key, so that fences do not
    // run ahead of the clock and grow even when the record is lost (P3). Where nobody can say what it used,
    // the whole room counts: no clock is asked, because it may have been set back.
    if (used !== undefined && record.last === row.fence + row.room)
      record.last = Math.min(record.last, Math.max(row.fence, row.used, used));
    if (row.proc !== "" && row.keepUntil > this.#moment.nowMs) {
      row.id = "";
      row.proc = "";
      row.until = row.keepUntil;
      delete row.waitingFor;
    } else {
      record.holders.splice(record.holders.indexOf(row), 1);
    }
  }

  #seat(record: KeyRecord, request: Request): void {
    const { nowMs, self } = this.#moment;
    const place = record.line.find((row) => row.id === request.id);
    if (place !== undefined) {
      place.seq = Math.max(place.seq, request.seq);
      place.seen = nowMs;
      place.label = request.label;
      return;
    }
    record.line.push(newWaiter(request, self, nowMs));
  }

  #settle(record: KeyRecord): void {
    if (this.#moment.mayGrant === false) return;
    for (;;) {
      const next = this.#first(record);
      if (next === null || !fits(record, next)) return;
      const records = next.keys === undefined ? [record] : this.#allOf(next);
      if (records === null) {
        this.wakes.push({ proc: next.proc, id: next.id, key: record.key });
        return;
      }
      if (!records.every((one) => this.#first(one)?.id === next.id && fits(one, next))) return;
      this.#promote(records, next);
    }
  }

  /** All records that a waiter for several keys needs, swept, or null when this step does not have them all. */
  #allOf(waiter: WaiterRow): KeyRecord[] | null {
    const records = (waiter.keys as readonly string[]).map((key) => this.#moment.record(key));
    if (records.includes(null)) return null;
    for (const record of records as KeyRecord[]) this.sweep(record);
    return records as KeyRecord[];
  }

  /** The first in line that is alive and was heard of lately. The dead lose their place, the silent only their turn. */
  #first(record: KeyRecord): WaiterRow | null {
    const { nowMs, claimMs, self } = this.#moment;
    for (const row of [...record.line]) {
      if (nowMs - row.seen > claimFor(claimMs, row.ttlMs) * FRESH_SHARE) continue;
      if (row.proc === self || this.#moment.alive(row.proc)) return row;
      unseat(record, row.id);
    }
    return null;
  }

  #promote(records: readonly KeyRecord[], waiter: WaiterRow): void {
    const { nowMs, wallUs } = this.#moment;
    const claimMs = claimFor(this.#moment.claimMs, waiter.ttlMs);
    // Only a lone holder may number its own hand-offs: beside others a number of its room could come after a larger one.
    const alone = waiter.mode === "exclusive" && waiter.limit === 1;
    const room = alone ? (waiter.room ?? Math.floor(waiter.ttlMs * 1_000)) : 0;
    for (const record of records) {
      const fence = Math.max(record.last + 1, Math.floor(wallUs));
      unseat(record, waiter.id);
      record.last = fence + room;
      record.limit = record.holders.length === 0 ? waiter.limit : Math.max(record.limit, waiter.limit);
      record.holders.push(newHolder(waiter, { fence, room, nowMs, claimMs }));
    }
    this.wakes.push({ proc: waiter.proc, id: waiter.id, key: (records[0] as KeyRecord).key });
  }

  /** Whoever asks and holds gets its full ttl: the answer to an acquire, to a wake-up, and to an attempt whose reply was lost (P8). */
  #rearm(records: readonly KeyRecord[], request: Request): LedgerAnswer {
    const rows = records.map((record) => holder(record, request.id) as HolderRow);
    if (rows.some((row) => row.revoked !== undefined)) return { ended: true };
    for (const row of rows)
      row.until = Math.max(row.until, this.#moment.nowMs + request.ttlMs + request.graceMs);
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
