// The "server" of the memory store: a Map of records and the rules of the ledger. Each method is
// synchronous and therefore one atomic step. It returns its notifications with the answer and does not
// send them, so that the simulator can put a network between the server and its clients.

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

/**
 * How long to keep an idle record: until new fences, which start at the wall clock, are larger than its
 * last one.
 */
const KEEP_FENCE_MS = 3_600_000;
const PRUNE_EVERY = 4_096;

/** The clocks of the server, and which clients are alive. */
export interface ServerEnvironment {
  monoMs(): number;
  wallMs(): number;
  alive(proc: string): boolean;
}

/** The client of a call, and its namespace. */
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
  readonly #environment: ServerEnvironment;
  #created = 0;

  constructor(environment: ServerEnvironment) {
    this.#environment = environment;
  }

  attempt(client: Client, request: Request): Step<AttemptAnswer<null>> {
    return this.#step<AttemptAnswer<null>>(client, (ledger) => {
      if (this.#ended.has(request.id)) return { ended: true };
      const answer = ledger.attempt(request);
      if ("granted" in answer) return { granted: toGrant(answer.granted) };
      if (!("busy" in answer)) return answer;
      // The request is over. If the network delivers its attempt twice, the second one must not be granted.
      if (!request.queue) this.#ended.add(request.id, this.#environment.monoMs());
      const nowMs = this.#environment.monoMs();
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
      this.#ended.add(request.id, this.#environment.monoMs());
      return ledger.release(request.keys, request.id, options.lastFences.map(Number))
        ? "released"
        : "not-held";
    });
  }

  abandon(client: Client, request: Request): Step<void> {
    return this.#step(client, (ledger) => {
      this.#ended.add(request.id, this.#environment.monoMs());
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
      ledger.sweepQueue(record);
      return lockInfo(record, this.#environment.monoMs());
    });
  }

  /** The keys of a namespace that have a record, also an idle one. */
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
      nowMs: this.#environment.monoMs(),
      wallUs: this.#environment.wallMs() * 1_000,
      self: client.proc,
      claimMs: CLAIM_MS,
      alive: (proc) => this.#environment.alive(proc),
      record: (key) => this.#record(client, key),
    });
  }

  #record(client: Client, key: string): KeyRecord {
    const name = `${client.namespace}\0${key}`;
    let record = this.records.get(name);
    if (record === undefined) {
      this.#created += 1;
      // Prune before adding the new record: it is idle and would be deleted too.
      if (this.#created % PRUNE_EVERY === 0) this.#prune(client);
      record = emptyRecord(key);
      this.records.set(name, record);
    }
    return record;
  }

  /** Deletes idle records whose fences the wall clock has passed, so that memory stays bounded (P16). */
  #prune(client: Client): void {
    const passedUs = (this.#environment.wallMs() - KEEP_FENCE_MS) * 1_000;
    const ledger = this.#ledger(client);
    for (const [name, record] of this.records) {
      ledger.sweep(record);
      if (isIdle(record) && record.last < passedUs) this.records.delete(name);
    }
  }
}

/** How many waiters are before this id, for the key with the most. */
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
