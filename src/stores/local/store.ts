// The local store as core sees it: each call of the contract is one step over key files, decided by the Ledger.
// A wake carries no grant here: to look for oneself costs 10 us and gives the full ttl at once. Time is CLOCK_MONOTONIC,
// which all processes of one boot share.

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
import { toGrant } from "../shared/grant.ts";
import { holderInfo, type KeyRecord, lockInfo } from "../shared/record.ts";
import { heartbeatFor } from "../shared/rows.ts";
import { aheadOf, againMs } from "./ahead.ts";
import { findings } from "./check.ts";
import { closedError } from "./errors.ts";
import { CLAIM_MS, HEARTBEAT_MS, localGuarantees } from "./guarantees.ts";
import { keysIn } from "./listing.ts";
import type { Message } from "./mailbox.ts";
import { type Decide } from "./steps.ts";
import { Session } from "./session.ts";

type TellLoss = (id: string, reason: LossReason, detail?: string) => void;

/** So many leases are renewed before other work of the process gets its turn. */
const RENEW_AT_ONCE = 64;

export class LocalOpenStore implements OpenStore<null> {
  readonly guarantees: Guarantees = localGuarantees;
  readonly #dir: string | undefined;
  readonly #env: StoreEnv;
  readonly #ended = new EndedIds();
  readonly #wakes = new Map<string, (grant?: Grant<null>) => void>();
  readonly #tellLoss = new Set<TellLoss>();
  #session!: Session;
  #mending: Promise<void> | null = null;
  #checkedAtMs = Number.NEGATIVE_INFINITY;
  #closed = false;

  private constructor(dir: string | undefined, env: StoreEnv) {
    this.#dir = dir;
    this.#env = env;
  }

  static async open(dir: string | undefined, env: StoreEnv): Promise<LocalOpenStore> {
    const store = new LocalOpenStore(dir, env);
    store.#session = await store.#openSession();
    return store;
  }

  /** See LocalStore.lifeline. */
  get lifeline(): number | null {
    return this.#closed ? null : this.#session.process.fd;
  }

  async attempt(request: Request, io: Io): Promise<AttemptAnswer<null>> {
    if (!this.#intact()) await this.#mend();
    const { session, id } = { session: this.#session, id: request.id };
    let ahead: readonly string[] = [];
    const answer = await this.#step<AttemptAnswer<null>>(request.keys, true, io, (ledger, record) => {
      ahead = [];
      if (this.#ended.has(id)) return { ended: true };
      const decided = ledger.attempt(request);
      if ("granted" in decided) return { granted: toGrant(decided.granted) };
      if (!("busy" in decided)) return decided;
      const records = request.keys.map(record);
      if (this.#wakes.has(id)) ahead = aheadOf(records, id, session.process.id, session.peers);
      return { busy: { holders: this.#holders(records), againMs: heartbeatFor(CLAIM_MS, request.ttlMs) } };
    });
    if ("busy" in answer && !request.queue) this.#end(id);
    if (!("busy" in answer) || !this.#wakes.has(id)) return answer;
    session.links.watch(id, ahead);
    return {
      busy: { ...answer.busy, againMs: Math.min(answer.busy.againMs, againMs(ahead, session.links)) },
    };
  }

  async renew(items: readonly RenewItem<null>[], io: Io): Promise<readonly RenewAnswer[]> {
    if (!this.#intact()) {
      const detail = "the file that proves this process alive was removed";
      return items.map(() => ({ state: "lost", reason: "session", detail }));
    }
    const answers: Promise<RenewAnswer>[] = [];
    for (const item of items) {
      if (answers.length % RENEW_AT_ONCE === RENEW_AT_ONCE - 1) await io.sleep(0);
      // One key in the hands of a stopped process must not cost the others their renewal.
      answers.push(this.#renewOne(item, io).catch((cause: unknown) => ({ state: "unknown", cause })));
    }
    return Promise.all(answers);
  }

  release(
    request: Request,
    _cookie: null,
    options: ReleaseOptions,
    io: Io,
  ): Promise<"released" | "not-held"> {
    this.#end(request.id);
    const used = options.lastFences.map(Number);
    return this.#step(request.keys, false, io, (ledger) =>
      ledger.release(request.keys, request.id, used) ? "released" : "not-held",
    );
  }

  abandon(request: Request, io: Io): Promise<void> {
    this.#end(request.id);
    return this.#step(request.keys, false, io, (ledger) => ledger.abandon(request.keys, request.id));
  }

  subscribe(request: Request, wake: (grant?: Grant<null>) => void): Promise<() => void> {
    if (this.#closed) return Promise.reject(closedError(request.keys[0]));
    this.#wakes.set(request.id, wake);
    return Promise.resolve(() => {
      this.#wakes.delete(request.id);
      this.#session.links.watch(request.id, []);
    });
  }

  onLoss(tell: TellLoss): () => void {
    this.#tellLoss.add(tell);
    return () => this.#tellLoss.delete(tell);
  }

  async owns(request: Request, _cookie: null, _io: Io): Promise<boolean> {
    return this.#look(
      request.keys,
      (ledger) => this.#session.process.intact && ledger.owns(request.keys, request.id),
    );
  }

  note(request: Request, _cookie: null, note: Note, io: Io): Promise<void> {
    return this.#step(request.keys, false, io, (ledger) =>
      ledger.note(request.keys, request.id, note?.waitingFor ?? null),
    );
  }

  async inspect(key: string, _io: Io): Promise<LockInfo | null> {
    return this.#look([key], (ledger, record) => {
      ledger.sweepLine(record(key));
      return lockInfo(record(key), this.#env.system.monoMs());
    });
  }

  async *list(options: { readonly prefix: string; readonly limit: number }, io: Io): AsyncIterable<LockInfo> {
    let left = options.limit;
    for await (const key of keysIn(this.#session, io)) {
      if (left <= 0) return;
      const info = key.startsWith(options.prefix) ? await this.inspect(key, io) : null;
      if (info === null) continue;
      left -= 1;
      yield info;
    }
  }

  revoke(key: string, options: RevokeOptions, io: Io): Promise<RevokeAnswer> {
    return this.#step([key], false, io, (ledger, record) => ledger.revoke(record(key), options));
  }

  async check(_io: Io): Promise<readonly Finding[]> {
    if (this.#closed) throw closedError();
    return findings(this.#session.place, this.#session.kernel);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#wakes.clear();
    await this.#mending?.catch(() => {});
    await this.#session.close();
  }

  #step<T>(keys: readonly string[], make: boolean, io: Io, decide: Decide<T>): Promise<T> {
    if (this.#closed) return Promise.reject(closedError(keys[0]));
    return this.#session.steps.run(keys, make, io, decide);
  }

  #look<T>(keys: readonly string[], decide: Decide<T>): T {
    if (this.#closed) throw closedError(keys[0]);
    return this.#session.steps.look(keys, decide);
  }

  async #renewOne(item: RenewItem<null>, io: Io): Promise<RenewAnswer> {
    const { request, ttlMs, lastFences, label } = item;
    const used = lastFences.map(Number);
    const answer = await this.#step(request.keys, false, io, (ledger) =>
      ledger.renew(request.keys, request.id, ttlMs, request.graceMs, used, label),
    );
    if (answer === "renewed") return { state: "renewed", validMs: ttlMs };
    if (answer === "gone") return { state: "lost", reason: "gone" };
    return { state: "lost", reason: "revoked", detail: answer.revoked };
  }

  /** From this moment a late attempt with this id changes nothing, even if the record cannot be reached yet (P8). */
  #end(id: string): void {
    this.#ended.add(id, this.#env.system.monoMs());
  }

  #holders(records: readonly KeyRecord[]): ReturnType<typeof holderInfo>[] {
    const nowMs = this.#env.system.monoMs();
    return records.flatMap((record) => record.holders.map((row) => holderInfo(row, nowMs)));
  }

  #hear(message: Message): void {
    if ("wake" in message) this.#wakes.get(message.wake)?.();
    else for (const tell of this.#tellLoss) tell(message.revoked, "revoked", message.reason);
  }

  #openSession(): Promise<Session> {
    return Session.open(this.#dir, this.#env, {
      hear: (message) => this.#hear(message),
      alarm: (waiter) => this.#wakes.get(waiter)?.(),
    });
  }

  /** Asked of the file system once per heartbeat: whoever removes files while they are in use is rarer than that. */
  #intact(): boolean {
    const nowMs = this.#env.system.monoMs();
    if (this.#closed || nowMs - this.#checkedAtMs < HEARTBEAT_MS) return true;
    if (!this.#session.process.intact) return false;
    this.#checkedAtMs = nowMs;
    return true;
  }

  /** A new session in place of one whose files were removed. What it held is lost; what comes is safe again. */
  #mend(): Promise<void> {
    this.#mending ??= (async () => {
      const broken = this.#session;
      this.#session = await this.#openSession();
      await broken.close();
    })().finally(() => {
      this.#mending = null;
    });
    return this.#mending;
  }
}
