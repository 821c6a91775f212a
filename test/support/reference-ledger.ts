// The rules of the ledger as a server that keeps its records by name and, like a script, has only the records of its own
// keys in its hands. Looking changes nothing in it. The scripts must give the same answers.

import type { AttemptAnswer, HolderInfo, LockInfo, Request, RevokeOptions } from "../../src/core/store.ts";
import { toBusy } from "../../src/stores/shared/busy.ts";
import type { LedgerGrant } from "../../src/stores/shared/grant.ts";
import { Ledger, type Wake } from "../../src/stores/shared/ledger.ts";
import {
  emptyRecord,
  holderInfo,
  type HolderRow,
  type KeyRecord,
  lockInfo,
} from "../../src/stores/shared/record.ts";
import { heartbeatFor, unseat } from "../../src/stores/shared/rows.ts";

const CLAIM_MS = 1_000;

export class Reference {
  nowUs = 0;
  /** What has been pushed since it was last emptied, as the scripts would say it. */
  pushed: string[] = [];
  readonly #records = new Map<string, KeyRecord>();
  readonly #ended = new Set<string>();
  readonly #beatFirst: boolean;
  readonly #claimMs: number;

  /** `beatFirst`: whoever asks is seen before the step, as in a table, so a long silence that nobody noticed costs it no place. */
  constructor({ beatFirst = false, claimMs = CLAIM_MS } = {}) {
    this.#beatFirst = beatFirst;
    this.#claimMs = claimMs;
  }

  attempt(proc: string, request: Request): AttemptAnswer<null> {
    if (this.#ended.has(request.id)) return { ended: true };
    return this.#step<AttemptAnswer<null>>(proc, request.keys, (ledger, records) => {
      const places = records.flatMap(({ line }) => line).filter(({ id }) => id === request.id);
      if (this.#beatFirst) for (const place of places) place.seen = this.nowUs / 1_000;
      const answer = ledger.attempt(request);
      if ("granted" in answer) return [{ granted: toGrant(answer.granted) }, true];
      // Core never asks again with an id that has ended, so the store keeps to that answer.
      if ("ended" in answer) this.#ended.add(request.id);
      if (!("busy" in answer)) return [answer, true];
      if (!request.queue) this.#ended.add(request.id);
      const holders = records.flatMap((one) => one.holders);
      const show = (row: HolderRow): HolderInfo => holderInfo(row, this.nowUs / 1_000);
      return [{ busy: toBusy(holders, show, heartbeatFor(this.#claimMs, request.ttlMs)) }, true];
    });
  }

  release(proc: string, request: Request, used: readonly number[]): "released" | "not-held" {
    this.#ended.add(request.id);
    return this.#step(proc, request.keys, (ledger, records) => {
      for (const record of records) unseat(record, request.id);
      return [ledger.release(request.keys, request.id, used) ? "released" : "not-held", true];
    });
  }

  abandon(proc: string, request: Request): void {
    this.#ended.add(request.id);
    this.#step(proc, request.keys, (ledger) => [ledger.abandon(request.keys, request.id), true]);
  }

  renew(proc: string, { keys, id, ttlMs, graceMs, label }: Request, used: readonly number[]): unknown {
    return this.#step<unknown>(proc, keys, (ledger) => {
      const answer = ledger.renew(keys, id, ttlMs, graceMs, used, label);
      if (answer === "renewed") return [{ state: "renewed", validMs: ttlMs }, true];
      if (answer === "gone") return [{ state: "lost", reason: "gone" }, false];
      return [{ state: "lost", reason: "revoked", detail: answer.revoked }, false];
    });
  }

  owns(proc: string, { keys, id }: Request): boolean {
    return this.#step(proc, keys, (ledger) => [ledger.owns(keys, id), false]);
  }

  note(proc: string, { keys, id }: Request, waitingFor: string | null): void {
    this.#step(proc, keys, (ledger) => [ledger.note(keys, id, waitingFor), true]);
  }

  inspect(proc: string, key: string): LockInfo | null {
    return this.#step(proc, [key], (ledger, [record]) => {
      ledger.sweepLine(record as KeyRecord);
      return [lockInfo(record as KeyRecord, this.nowUs / 1_000), false];
    });
  }

  revoke(proc: string, key: string, options: RevokeOptions): string {
    return this.#step(proc, [key], (ledger, [record]) => {
      const answer = ledger.revoke(record as KeyRecord, options);
      return [answer, answer === "revoked"];
    });
  }

  /** One step over copies, which take the place of the records if it says so. */
  #step<T>(
    proc: string,
    keys: readonly string[],
    decide: (ledger: Ledger, records: readonly KeyRecord[]) => [T, boolean],
  ): T {
    const copies = new Map(
      keys.map((key) => [key, structuredClone(this.#records.get(key) ?? emptyRecord(key))]),
    );
    const ledger = new Ledger({
      nowMs: this.nowUs / 1_000,
      wallUs: this.nowUs,
      self: proc,
      claimMs: this.#claimMs,
      alive: () => true,
      record: (key) => copies.get(key) ?? null,
    });
    const [answer, changes] = decide(ledger, [...copies.values()]);
    if (changes) for (const [key, record] of copies) this.#records.set(key, record);
    this.pushed.push(...ledger.wakes.map(said));
    return answer;
  }
}

function toGrant(grant: LedgerGrant) {
  const { fences, room, validMs } = grant;
  return { fences: fences.map(BigInt), fenceRoom: room, validMs, cookie: null };
}

function said({ id, revoked }: Wake): string {
  return revoked === undefined ? `look ${id}` : `revoked ${id} ${revoked}`;
}
