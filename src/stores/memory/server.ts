// The "server" of the reference store: a Map of records, the rules of the Ledger, and nothing else. Each method is one
// atomic step, because JavaScript runs it to its end. It knows no client: whoever has to be told of a step's
// consequences is returned with the answer, so that the same server can stand behind a simulated network.

import type {
  AttemptAnswer,
  LockInfo,
  Note,
  ReleaseOptions,
  RenewAnswer,
  RenewItem,
  Request,
  RevokeAnswer,
  RevokeOptions,
} from "../../core/store.ts";
import { toBusy } from "../shared/busy.ts";
import { EndedIds } from "../shared/ended-ids.ts";
import { toGrant } from "../shared/grant.ts";
import { Ledger, type Wake } from "../shared/ledger.ts";
import { emptyRecord, holderInfo, isIdle, type KeyRecord, lockInfo } from "../shared/record.ts";
import { heartbeatFor } from "../shared/rows.ts";
import { CLAIM_MS } from "./guarantees.ts";

/** Fences outlive the record for this long; by then the wall clock has passed them. */
const KEEP_FENCE_MS = 3_600_000;
const PRUNE_EVERY = 4_096;

/** The server's own clocks, and what it knows of its clients. */
export interface Surroundings {
  monoMs(): number;
  wallMs(): number;
  alive(proc: string): boolean;
}

/** Who asks: which client, in which namespace. */
export interface Client {
  readonly proc: string;
  readonly namespace: string;
}

export interface Step<T> {
  readonly answer: T;
  readonly wakes: readonly Wake[];
}

export class MemoryServer {
  /** By namespace and key. */
  readonly records: Map<string, KeyRecord> = new Map();
  readonly #ended = new EndedIds();
  readonly #surroundings: Surroundings;
  #created = 0;

  constructor(surroundings: Surroundings) {
    this.#surroundings = surroundings;
  }

  attempt(client: Client, request: Request): Step<AttemptAnswer<null>> {
    return this.#step<AttemptAnswer<null>>(client, (ledger) => {
      if (this.#ended.has(request.id)) return { ended: true };
      const answer = ledger.attempt(request);
      if ("granted" in answer) return { granted: toGrant(answer.granted) };
      if (!("busy" in answer)) return answer;
      // Nobody will ask again with this id: should the network deliver the same attempt twice, it must not be granted.
      if (!request.queue) this.#ended.add(request.id, this.#surroundings.monoMs());
      const nowMs = this.#surroundings.monoMs();
      const records = request.keys.map((key) => this.#record(client, key));
      const holders =
        records.length === 1 ? (records[0] as KeyRecord).holders : records.flatMap((one) => one.holders);
      const busy = toBusy(holders, (row) => holderInfo(row, nowMs), heartbeatFor(CLAIM_MS, request.ttlMs));
      return { busy: request.queue ? { ...busy, position: position(records, request.id) } : busy };
    });
  }

  renew(client: Client, items: readonly RenewItem<null>[]): Step<readonly RenewAnswer[]> {
    return this.#step(client, (ledger) =>
      items.map(({ request, ttlMs, lastFences, label }): RenewAnswer => {
        const used = lastFences.map(Number);
        const answer = ledger.renew(request.keys, request.id, ttlMs, request.graceMs, used, label);
        if (answer === "renewed") return { state: "renewed", validMs: ttlMs };
        if (answer === "gone") return { state: "lost", reason: "gone" };
        return { state: "lost", reason: "revoked", detail: answer.revoked };
      }),
    );
  }

  release(client: Client, request: Request, options: ReleaseOptions): Step<"released" | "not-held"> {
    return this.#step(client, (ledger) => {
      this.#ended.add(request.id, this.#surroundings.monoMs());
      return ledger.release(request.keys, request.id, options.lastFences.map(Number))
        ? "released"
        : "not-held";
    });
  }

  abandon(client: Client, request: Request): Step<void> {
    return this.#step(client, (ledger) => {
      this.#ended.add(request.id, this.#surroundings.monoMs());
      ledger.abandon(request.keys, request.id);
    });
  }

  owns(client: Client, request: Request): Step<boolean> {
    return this.#step(client, (ledger) => ledger.owns(request.keys, request.id));
  }

  note(client: Client, request: Request, note: Note): Step<void> {
    return this.#step(client, (ledger) => ledger.note(request.keys, request.id, note?.waitingFor ?? null));
  }

  inspect(client: Client, key: string): Step<LockInfo | null> {
    return this.#step(client, (ledger) => {
      const record = this.#record(client, key);
      ledger.sweepLine(record);
      return lockInfo(record, this.#surroundings.monoMs());
    });
  }

  /** The keys of a namespace that have a record, whether somebody is at them or not. */
  keys(client: Client): string[] {
    const own = `${client.namespace}\0`;
    return [...this.records].filter(([name]) => name.startsWith(own)).map(([, record]) => record.key);
  }

  revoke(client: Client, key: string, options: RevokeOptions): Step<RevokeAnswer> {
    return this.#step(client, (ledger) => ledger.revoke(this.#record(client, key), options));
  }

  #step<T>(client: Client, decide: (ledger: Ledger) => T): Step<T> {
    const ledger = this.#ledger(client);
    const answer = decide(ledger);
    return { answer, wakes: ledger.wakes };
  }

  #ledger(client: Client): Ledger {
    return new Ledger({
      nowMs: this.#surroundings.monoMs(),
      wallUs: this.#surroundings.wallMs() * 1_000,
      self: client.proc,
      claimMs: CLAIM_MS,
      alive: (proc) => this.#surroundings.alive(proc),
      record: (key) => this.#record(client, key),
    });
  }

  #record(client: Client, key: string): KeyRecord {
    const name = `${client.namespace}\0${key}`;
    let record = this.records.get(name);
    if (record === undefined) {
      this.#created += 1;
      // Before the new record is there: as long as nobody is at it, it would be pruned too.
      if (this.#created % PRUNE_EVERY === 0) this.#prune(client);
      record = emptyRecord(key);
      this.records.set(name, record);
    }
    return record;
  }

  /** Memory per name is bounded (P16): an idle record goes once the clock alone keeps its fences growing. */
  #prune(client: Client): void {
    const passedUs = (this.#surroundings.wallMs() - KEEP_FENCE_MS) * 1_000;
    const ledger = this.#ledger(client);
    for (const [name, record] of this.records) {
      ledger.sweep(record);
      if (isIdle(record) && record.last < passedUs) this.records.delete(name);
    }
  }
}

/** How many wait before this id for the key where most do. */
function position(records: readonly KeyRecord[], id: string): number {
  return records.reduce(
    (most, { line }) =>
      Math.max(
        most,
        line.findIndex((row) => row.id === id),
      ),
    0,
  );
}
