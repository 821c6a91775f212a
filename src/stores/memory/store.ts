// The reference store: the whole contract in its plainest form. Read this first.
// A Map of records is the "server", the Ledger holds the rules, and JavaScript's single thread makes each step atomic.
// It behaves like a network store on purpose: a waiter that is chosen gets a push with a grant that counts from its last
// heartbeat, and an id that has ended stays ended.

import type {
  AttemptAnswer,
  Finding,
  Grant,
  Guarantees,
  Io,
  LockInfo,
  LossReason,
  Note,
  OpenStore,
  ReleaseOptions,
  RenewAnswer,
  RenewItem,
  Request,
  RevokeAnswer,
  RevokeOptions,
  StoreEnv,
} from "../../core/store.ts";
import { EndedIds } from "../shared/ended-ids.ts";
import { Ledger, type LedgerGrant, type Wake } from "../shared/ledger.ts";
import { emptyRecord, holderInfo, isIdle, type KeyRecord, lockInfo } from "../shared/record.ts";
import { CLAIM_MS, HEARTBEAT_MS, memoryGuarantees } from "./guarantees.ts";

/** Fences outlive the record for this long; by then the wall clock has passed them. */
const KEEP_FENCE_MS = 3_600_000;
const PRUNE_EVERY = 4_096;

/** What all stores opened from one `memory()` share. */
export class MemoryWorld {
  readonly records: Map<string, KeyRecord> = new Map();
  readonly ended: EndedIds = new EndedIds();
  /** The opened stores, by their name in the records. */
  readonly open: Map<string, MemoryStore> = new Map();
  #created = 0;

  record(name: string, key: string, wallUs: number): KeyRecord {
    let record = this.records.get(name);
    if (record === undefined) {
      record = emptyRecord(key);
      this.records.set(name, record);
      this.#created += 1;
      if (this.#created % PRUNE_EVERY === 0) this.#prune(wallUs);
    }
    return record;
  }

  /** Memory per name is bounded (P16): an idle record goes once the clock alone keeps its fences growing. */
  #prune(wallUs: number): void {
    for (const [name, record] of this.records) {
      if (isIdle(record) && record.last + KEEP_FENCE_MS * 1_000 < wallUs) this.records.delete(name);
    }
  }
}

export class MemoryStore implements OpenStore<null> {
  readonly guarantees: Guarantees = memoryGuarantees;
  readonly #world: MemoryWorld;
  readonly #env: StoreEnv;
  readonly #proc: string;
  readonly #wakes = new Map<string, (grant?: Grant<null>) => void>();
  #tellLoss: ((id: string, reason: LossReason, detail?: string) => void) | null = null;

  constructor(world: MemoryWorld, env: StoreEnv) {
    this.#world = world;
    this.#env = env;
    this.#proc = env.system.randomId();
    world.open.set(this.#proc, this);
  }

  attempt(request: Request, _io: Io): Promise<AttemptAnswer<null>> {
    return this.#step<AttemptAnswer<null>>((ledger) => {
      if (this.#world.ended.has(request.id)) return { ended: true };
      const answer = ledger.attempt(request);
      if ("granted" in answer) return { granted: toGrant(answer.granted) };
      if (!("busy" in answer)) return answer;
      const nowMs = this.#env.system.monoMs();
      const holders = request.keys.flatMap((key) => this.#record(key).holders);
      return {
        busy: { holders: holders.map((row) => holderInfo(row, nowMs)), againMs: HEARTBEAT_MS },
      };
    });
  }

  renew(items: readonly RenewItem<null>[], _io: Io): Promise<readonly RenewAnswer[]> {
    return this.#step((ledger) =>
      items.map(({ request, ttlMs, lastFences, label }): RenewAnswer => {
        const used = lastFences.map(Number);
        const answer = ledger.renew(request.keys, request.id, ttlMs, request.graceMs, used, label);
        if (answer === "renewed") return { state: "renewed", validMs: ttlMs };
        if (answer === "gone") return { state: "lost", reason: "gone" };
        return { state: "lost", reason: "revoked", detail: answer.revoked };
      }),
    );
  }

  release(
    request: Request,
    _cookie: null,
    options: ReleaseOptions,
    _io: Io,
  ): Promise<"released" | "not-held"> {
    return this.#step((ledger) => {
      this.#world.ended.add(request.id, this.#env.system.monoMs());
      return ledger.release(request.keys, request.id, options.lastFences.map(Number)) ? "released" : "not-held";
    });
  }

  abandon(request: Request, _io: Io): Promise<void> {
    return this.#step((ledger) => {
      this.#world.ended.add(request.id, this.#env.system.monoMs());
      ledger.abandon(request.keys, request.id);
    });
  }

  subscribe(request: Request, wake: (grant?: Grant<null>) => void): Promise<() => void> {
    this.#wakes.set(request.id, wake);
    return Promise.resolve(() => this.#wakes.delete(request.id));
  }

  onLoss(tell: (id: string, reason: LossReason, detail?: string) => void): () => void {
    this.#tellLoss = tell;
    return () => {
      this.#tellLoss = null;
    };
  }

  owns(request: Request, _cookie: null, _io: Io): Promise<boolean> {
    return this.#step((ledger) => ledger.owns(request.keys, request.id));
  }

  note(request: Request, _cookie: null, note: Note, _io: Io): Promise<void> {
    return this.#step((ledger) => ledger.note(request.keys, request.id, note?.waitingFor ?? null));
  }

  inspect(key: string, _io: Io): Promise<LockInfo | null> {
    return this.#step((ledger) => {
      const record = this.#record(key);
      ledger.sweep(record);
      return lockInfo(record, this.#env.system.monoMs());
    });
  }

  async *list(options: { prefix: string; limit: number }, io: Io): AsyncIterable<LockInfo> {
    let left = options.limit;
    const own = `${this.#env.namespace}\0`;
    for (const [name, record] of this.#world.records) {
      if (left === 0) return;
      if (!name.startsWith(own) || !record.key.startsWith(options.prefix)) continue;
      const info = await this.inspect(record.key, io);
      if (info === null) continue;
      left -= 1;
      yield info;
    }
  }

  revoke(key: string, options: RevokeOptions, _io: Io): Promise<RevokeAnswer> {
    return this.#step((ledger) => ledger.revoke(this.#record(key), options));
  }

  check(_io: Io): Promise<readonly Finding[]> {
    return Promise.resolve([]);
  }

  close(): Promise<void> {
    this.#world.open.delete(this.#proc);
    this.#wakes.clear();
    return Promise.resolve();
  }

  #record(key: string): KeyRecord {
    return this.#world.record(`${this.#env.namespace}\0${key}`, key, this.#env.system.wallMs() * 1_000);
  }

  /** One atomic step, then the pushes that it caused. */
  #step<T>(decide: (ledger: Ledger) => T): Promise<T> {
    const ledger = new Ledger({
      nowMs: this.#env.system.monoMs(),
      wallUs: this.#env.system.wallMs() * 1_000,
      self: this.#proc,
      claimMs: CLAIM_MS,
      alive: (proc) => this.#world.open.has(proc),
      record: (key) => this.#record(key),
    });
    const answer = decide(ledger);
    for (const wake of ledger.wakes) this.#world.open.get(wake.proc)?.hear(wake);
    return Promise.resolve(answer);
  }

  /** The receiving end of a push. */
  hear(wake: Wake): void {
    if (wake.revoked !== undefined) this.#tellLoss?.(wake.id, "revoked", wake.revoked);
    else this.#wakes.get(wake.id)?.(wake.grant && toGrant(wake.grant));
  }
}

function toGrant(grant: LedgerGrant): Grant<null> {
  return {
    fences: grant.fences.map(BigInt),
    fenceRoom: grant.room,
    validMs: grant.validMs,
    anchor: grant.anchor,
    cookie: null,
  };
}
