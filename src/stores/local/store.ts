// The store contract over the log: each call is one atomic step, and shared/ledger.ts decides it. Times
// are of the monotonic clock, which all processes of one boot share.

import type {
  AttemptAnswer,
  Busy,
  Finding,
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
import { abandonEach } from "../shared/abandon-each.ts";
import { EndedIds } from "../shared/ended-ids.ts";
import { toBusy } from "../shared/busy.ts";
import { toGrant } from "../shared/grant.ts";
import { holderInfo, type KeyRecord } from "../shared/record.ts";
import { heartbeatFor } from "../shared/rows.ts";
import type { Decide } from "./atomic-step.ts";
import { closedError } from "./errors.ts";
import { CLAIM_MS, HEARTBEAT_MS, localGuarantees } from "./guarantees.ts";
import { findings } from "./health.ts";
import { inspectKey, listKeys } from "./inspect.ts";
import type { Message } from "./notifications.ts";
import { Session } from "./session.ts";

type LossListener = (id: string, reason: LossReason, detail?: string) => void;

/** The interval at which a process that holds leases checks that its files still exist. */
const LOOK_MS: number = CLAIM_MS;
/** After this many renewals, other work of the process runs. */
const RENEW_AT_ONCE = 64;

export class LocalOpenStore implements OpenStore<null> {
  readonly guarantees: Guarantees = localGuarantees;
  readonly #dir: string | undefined;
  readonly #env: StoreEnv;
  readonly #ended = new EndedIds();
  readonly #wakes = new Map<string, () => void>();
  readonly #lossListeners = new Set<LossListener>();
  /** Grants by id, until they end. */
  readonly #held = new Map<string, Request>();
  #cancelLook: (() => void) | null = null;
  /** Null if the directory is read-only and does not contain a folder yet. */
  #session: Session | null = null;
  #reopening: Promise<void> | null = null;
  #checkedAtMs = Number.NEGATIVE_INFINITY;
  #isClosed = false;

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
    return this.#session?.lifeline ?? null;
  }

  async attempt(request: Request, io: Io): Promise<AttemptAnswer<null>> {
    const session = this.#checked() ?? (await this.#writable(request.keys[0], HEARTBEAT_MS));
    const { id } = request;
    for (let hasAsked = false; ; hasAsked = true) {
      let ahead: readonly string[] = [];
      const answer = await session.steps.run<AttemptAnswer<null>>(
        request.keys,
        false,
        io,
        (ledger, record) => {
          ahead = [];
          if (this.#ended.has(id)) return { ended: true };
          const decided = ledger.attempt(request);
          if ("granted" in decided) return { granted: toGrant(decided.granted) };
          const records = request.keys.map(record);
          ahead = processesAhead(records, id, session);
          if (!("busy" in decided)) return decided;
          return { busy: this.#busy(records, request) };
        },
      );
      if ("granted" in answer) this.#hold(request);
      if (!("busy" in answer)) return answer;
      // The process before this one may be dead: ask it once, and decide again. Let the event loop run first,
      // because it may already have the event that the process ended.
      if (!hasAsked && ahead.length > 0) {
        await io.sleep(0);
        if (await session.peers.ask(ahead)) continue;
      }
      if ("busy" in answer && !request.queue) this.#end(id);
      if ("busy" in answer && this.#wakes.has(id)) session.peers.watch(id, ahead);
      return answer;
    }
  }

  async renew(items: readonly RenewItem<null>[], io: Io): Promise<readonly RenewAnswer[]> {
    const session = await this.#writable(items[0]?.request.keys[0], 0);
    const answers: Promise<RenewAnswer>[] = [];
    for (const item of items) {
      if (answers.length % RENEW_AT_ONCE === RENEW_AT_ONCE - 1) await io.sleep(0);
      answers.push(
        renewOne(session, item, io).catch((cause: unknown): RenewAnswer => ({ state: "unknown", cause })),
      );
    }
    const found = await Promise.all(answers);
    for (const [at, { state }] of found.entries())
      if (state === "lost") this.#held.delete(items[at]?.request.id ?? "");
    return found;
  }

  async release(
    request: Request,
    _cookie: null,
    options: ReleaseOptions,
    io: Io,
  ): Promise<"released" | "not-held"> {
    this.#end(request.id);
    const used = options.lastFences.map(Number);
    return this.#change(request.keys, io, (ledger) =>
      ledger.release(request.keys, request.id, used) ? "released" : "not-held",
    );
  }

  abandon(requests: readonly Request[], io: Io): Promise<readonly Request[]> {
    for (const { id } of requests) this.#end(id);
    return abandonEach(requests, io, ({ keys, id }) =>
      this.#change(keys, io, (ledger) => ledger.abandon(keys, id)),
    );
  }

  subscribe(request: Request, wake: () => void): Promise<() => void> {
    if (this.#isClosed) return Promise.reject(closedError(request.keys[0]));
    this.#wakes.set(request.id, wake);
    return Promise.resolve(() => {
      this.#wakes.delete(request.id);
      this.#session?.peers.watch(request.id, []);
    });
  }

  onLoss(listener: LossListener): () => void {
    this.#lossListeners.add(listener);
    return () => this.#lossListeners.delete(listener);
  }

  async owns(request: Request, _cookie: null, _io: Io): Promise<boolean> {
    const session = await this.#writable(request.keys[0], 0);
    return session.steps.read(request.keys, (ledger) => ledger.owns(request.keys, request.id));
  }

  async note(request: Request, _cookie: null, note: Note, io: Io): Promise<void> {
    const waitingFor = note?.waitingFor ?? null;
    return this.#change(request.keys, io, (ledger) => ledger.note(request.keys, request.id, waitingFor));
  }

  async inspect(key: string, _io: Io): Promise<LockInfo | null> {
    const session = await this.#readable();
    return session === null ? null : inspectKey(session, key, this.#env.system.monoMs());
  }

  async *list(options: { readonly prefix: string; readonly limit: number }, io: Io): AsyncIterable<LockInfo> {
    const session = await this.#readable();
    if (session !== null) yield* listKeys(session, options, this.#env.system, io);
  }

  async revoke(key: string, options: RevokeOptions, io: Io): Promise<RevokeAnswer> {
    return this.#change([key], io, (ledger, record) => ledger.revoke(record(key), options));
  }

  async check(_io: Io): Promise<readonly Finding[]> {
    const session = await this.#readable();
    return session === null ? [] : findings(session, this.#dir === undefined);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#wakes.clear();
    this.#held.clear();
    this.#cancelLook?.();
    await this.#reopening?.catch(() => {});
    await this.#session?.close();
    this.#session = null;
  }

  async #change<T>(keys: readonly string[], io: Io, decide: Decide<T>): Promise<T> {
    const session = this.#checked() ?? (await this.#writable(keys[0], HEARTBEAT_MS));
    return session.steps.run(keys, true, io, decide);
  }

  /** The session, if its files were checked within the last heartbeat. */
  #checked(): Session | null {
    if (this.#isClosed || this.#session?.directory.isReadOnly !== false) return null;
    return this.#env.system.monoMs() - this.#checkedAtMs < HEARTBEAT_MS ? this.#session : null;
  }

  /**
   * The session, or a new one if its files were deleted. Checks the files if the last check is older than
   * `checkEveryMs`.
   */
  async #writable(key: string | undefined, checkEveryMs: number): Promise<Session> {
    if (this.#isClosed) throw closedError(key);
    const nowMs = this.#env.system.monoMs();
    if (this.#session === null || nowMs - this.#checkedAtMs >= checkEveryMs) {
      if (this.#session === null || !this.#session.isIntact()) await this.#reopen();
      this.#checkedAtMs = nowMs;
    }
    const session = this.#session as Session | null;
    if (session === null) throw closedError(key);
    session.requireWritable(key);
    return session;
  }

  async #readable(): Promise<Session | null> {
    if (this.#isClosed) throw closedError();
    if (this.#session === null || !this.#session.isIntact()) await this.#reopen();
    return this.#session;
  }

  #reopen(): Promise<void> {
    this.#reopening ??= (async () => {
      const old = this.#session;
      const opened = await this.#openSession();
      if (this.#isClosed) {
        await opened?.close();
        return;
      }
      this.#session = opened;
      this.#reportLosses();
      await old?.close();
    })().finally(() => {
      this.#reopening = null;
    });
    return this.#reopening;
  }

  #openSession(): Promise<Session | null> {
    return Session.open(this.#dir, this.#env, {
      receive: (message) => this.#receive(message),
      onDeath: (waiter) => this.#wakes.get(waiter)?.(),
    });
  }

  #receive(message: Message): void {
    if ("wake" in message) this.#wakes.get(message.wake)?.();
    else for (const report of this.#lossListeners) report(message.revoked, "revoked", message.reason);
  }

  /** From now on a late attempt with this id changes nothing (P8). */
  #end(id: string): void {
    this.#ended.add(id, this.#env.system.monoMs());
    this.#held.delete(id);
  }

  #hold(request: Request): void {
    if (this.#isClosed || this.#ended.has(request.id)) return;
    this.#held.set(request.id, request);
    this.#cancelLook ??= this.#lookLater();
  }

  #lookLater(): () => void {
    return this.#env.system.after(LOOK_MS, () => void this.#look(), "background");
  }

  /**
   * After the files are deleted, another process can take the keys. The holder must notice before its next
   * renewal.
   */
  async #look(): Promise<void> {
    this.#cancelLook = null;
    if (this.#isClosed || this.#held.size === 0) return;
    try {
      if (this.#session?.hasLog() === false) await this.#reopen();
    } catch {
      // The next renewal meets the same failure and reports it.
    }
    if (!this.#isClosed && this.#held.size > 0) this.#cancelLook = this.#lookLater();
  }

  /** Reports the loss of every held key that is not in the log of the session. */
  #reportLosses(): void {
    for (const { id, keys } of [...this.#held.values()]) {
      if (this.#session?.steps.read(keys, (ledger) => ledger.owns(keys, id)) === true) continue;
      this.#held.delete(id);
      for (const report of this.#lossListeners) report(id, "gone");
    }
  }

  /**
   * One heartbeat. The first waiter also attempts when the lease of a holder ends, because a stopped holder
   * sends no notification.
   */
  #againMs(records: readonly KeyRecord[], request: Request): number {
    const heartbeatMs = heartbeatFor(CLAIM_MS, request.ttlMs);
    if (records.some(({ line }) => line.length > 0 && line[0]?.id !== request.id)) return heartbeatMs;
    const ends = records.flatMap(({ holders }) => holders.map((row) => row.until));
    return Math.min(heartbeatMs, Math.max(1, Math.min(...ends) - this.#env.system.monoMs()));
  }

  #busy(records: readonly KeyRecord[], request: Request): Busy {
    const nowMs = this.#env.system.monoMs();
    const holders = records.flatMap((record) => record.holders);
    return toBusy(holders, (row) => holderInfo(row, nowMs), this.#againMs(records, request));
  }
}

async function renewOne(session: Session, item: RenewItem<null>, io: Io): Promise<RenewAnswer> {
  const { request, ttlMs, lastFences, label } = item;
  const used = lastFences.map(Number);
  const answer = await session.steps.run(request.keys, true, io, (ledger) =>
    ledger.renew(request.keys, request.id, ttlMs, request.graceMs, used, label),
  );
  if (answer === "renewed") return { state: "renewed", validMs: ttlMs };
  if (answer === "gone") return { state: "lost", reason: "gone" };
  return { state: "lost", reason: "revoked", detail: answer.revoked };
}

/**
 * The processes right before this request: the live waiter before it in the queue, or the holders if it is
 * first. Only these are watched, so that a death does not wake the whole queue (P14).
 */
function processesAhead(records: readonly KeyRecord[], id: string, session: Session): readonly string[] {
  const processes = new Set<string>();
  for (const record of records) {
    const at = record.line.findIndex((row) => row.id === id);
    const before = record.line
      .slice(0, Math.max(at, 0))
      .findLast((row) => row.proc === session.name || session.peers.isAlive(row.proc));
    for (const { proc } of before === undefined ? record.holders : [before]) {
      if (proc !== "" && proc !== session.name) processes.add(proc);
    }
  }
  return [...processes];
}
