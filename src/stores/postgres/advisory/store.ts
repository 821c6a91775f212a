// The contract on session locks. A lock has a session of its own, and lives and dies with it. A call that is
// given up ends its session, because nobody could tell any more what that session holds.

import { StoreUnavailableError } from "../../../core/errors.ts";
import type {
  AttemptAnswer,
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
  TransactionDesk,
} from "../../../core/store.ts";
import { abandonEach } from "../../shared/abandon-each.ts";
import { toBusy } from "../../shared/busy.ts";
import { EndedIds } from "../../shared/ended-ids.ts";
import { advisoryGuarantees } from "../guarantees.ts";
import type { AdvisoryBackend } from "./backend.ts";
import type { Notifications } from "./notifications.ts";
import { AdvisoryRequest, type Phase } from "./request.ts";
import type { Session } from "./session.ts";

/** How long the reply to a wait that is over may take. */
const REPLY_MS = 200;

export class AdvisoryStore implements OpenStore<null> {
  readonly guarantees: Guarantees = advisoryGuarantees;
  readonly #backend: AdvisoryBackend;
  readonly #env: StoreEnv;
  readonly #notifications: Notifications;
  readonly #requests = new Map<string, AdvisoryRequest>();
  readonly #ended = new EndedIds();
  #reportLoss: ((id: string, reason: LossReason, detail?: string) => void) | null = null;
  #isClosed = false;

  /** `notifications`: where the backend reports revocations. */
  constructor(backend: AdvisoryBackend, notifications: Notifications, env: StoreEnv) {
    this.#backend = backend;
    this.#notifications = notifications;
    this.#env = env;
  }

  attempt(request: Request, io: Io): Promise<AttemptAnswer<null>> {
    if (this.#ended.has(request.id)) return Promise.resolve({ ended: true });
    const own = this.#requests.get(request.id) ?? new AdvisoryRequest(request);
    this.#requests.set(request.id, own);
    return this.#do("acquire the lock", request.keys[0], async () => {
      const answer = await own.run(() => this.#attempt(own, request, io));
      if ("ended" in answer || ("busy" in answer && !request.queue)) {
        this.#requests.delete(request.id);
        this.#ended.add(request.id, this.#env.system.monoMs());
      }
      this.#backend.cleanIfDue(io);
      return answer;
    });
  }

  renew(items: readonly RenewItem<null>[], io: Io): Promise<readonly RenewAnswer[]> {
    return Promise.all(
      items.map((item) =>
        this.#renew(item, io).catch((cause: unknown): RenewAnswer => ({ state: "unknown", cause })),
      ),
    );
  }

  release(
    request: Request,
    _cookie: null,
    options: ReleaseOptions,
    io: Io,
  ): Promise<"released" | "not-held"> {
    return this.#do("release the lock", request.keys[0], async () =>
      (await this.#end(request, options.lastFences[0] ?? null, io)) ? "released" : "not-held",
    );
  }

  abandon(requests: readonly Request[], io: Io): Promise<readonly Request[]> {
    return abandonEach(requests, io, (request, once) =>
      this.#do("end the request", request.keys[0], () => this.#end(request, null, once)),
    );
  }

  /** The server ends the lock when it sees the end of the connection. */
  forget(request: Request): void {
    this.#ended.add(request.id, this.#env.system.monoMs());
    const session = this.#requests.get(request.id)?.session ?? null;
    this.#requests.delete(request.id);
    if (session === null) return;
    session.onEnd = null;
    session.kill();
  }

  subscribe(request: Request, wake: () => void): Promise<() => void> {
    const off = this.#notifications.subscribe(request.id, wake);
    if (this.#requests.get(request.id)?.phase === "locked") wake();
    return Promise.resolve(off);
  }

  onLoss(report: (id: string, reason: LossReason, detail?: string) => void): () => void {
    this.#reportLoss = report;
    const off = this.#notifications.onLoss((id, reason, detail) => {
      if (this.#requests.has(id)) report(id, reason, detail);
    });
    return () => {
      this.#reportLoss = null;
      off();
    };
  }

  owns(request: Request, _cookie: null, io: Io): Promise<boolean> {
    return this.#do("tell who holds the lock", request.keys[0], async () => {
      const own = this.#requests.get(request.id);
      if (own === undefined) return false;
      return (await own.run(() => this.#renewOne(own, own.fence, null, io))).state === "renewed";
    });
  }

  note(request: Request, _cookie: null, note: Note, io: Io): Promise<void> {
    return this.#do("write the note", request.keys[0], async () => {
      if (this.#requests.get(request.id)?.phase !== "held") return;
      await this.#backend.note(request.id, note?.waitingFor ?? null, io);
    });
  }

  /** Without waiters: the server knows a waiter only while its session waits. */
  inspect(key: string, io: Io): Promise<LockInfo | null> {
    return this.#do("inspect the lock", key, async () => {
      const { holders } = await this.#backend.inspect(key, null, io);
      return holders.length === 0 ? null : { key, limit: 1, holders, waiters: null };
    });
  }

  async *list(options: { readonly prefix: string; readonly limit: number }, io: Io): AsyncIterable<LockInfo> {
    const all = await this.#do("list the locks", undefined, () => this.#backend.list(options.prefix, io));
    let left = options.limit;
    for (const info of all) {
      if (left <= 0) return;
      left -= 1;
      yield info;
    }
  }

  revoke(key: string, options: RevokeOptions, io: Io): Promise<RevokeAnswer> {
    return this.#do("revoke the lock", key, () => this.#backend.revoke(key, options, io));
  }

  check(io: Io): Promise<readonly Finding[]> {
    return this.#do("be checked", undefined, () => this.#backend.check(io));
  }

  inTransaction(tx: unknown): TransactionDesk {
    const locks = this.#backend.inTransaction(tx);
    return {
      attempt: (wish, io) => this.#do("lock in the transaction", wish.keys[0], () => locks.attempt(wish, io)),
    };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#notifications.clear();
    for (const { session } of this.#requests.values()) if (session !== null) session.onEnd = null;
    this.#requests.clear();
    await this.#backend.close();
  }

  async #attempt(own: AdvisoryRequest, request: Request, io: Io): Promise<AttemptAnswer<null>> {
    if (own.session?.dead === true || own.phase === "lost") {
      const { phase, session } = own;
      own.session = null;
      own.phase = "new";
      if (session !== null) await this.#backend.end(session, io);
      if (phase === "held") return { ended: true };
    }
    if (own.phase === "held") {
      const { state } = await this.#renewOne(own, own.fence, null, io);
      return state === "renewed" ? granted(own, request) : { ended: true };
    }
    if (own.phase === "waiting") return this.#askWhileWaiting(own, request, io);
    const session = (own.session ??= await this.#backend.open(io));
    if (this.#ended.has(request.id)) {
      // It was given up while its session was opened.
      own.session = null;
      this.#backend.giveBack(session);
      return { ended: true };
    }
    if (await this.#acquire(own, session, io)) return granted(own, request);
    if (request.queue) {
      own.startWaiting(session, this.#backend.waitForLock(session, own), () =>
        this.#notifications.wake(request.id),
      );
    } else {
      own.session = null;
      this.#backend.giveBack(session);
    }
    const { holders } = await this.#backend.inspect(request.keys[0] as string, null, io);
    return { busy: toBusy(holders, (holder) => holder, this.guarantees.pollMs) };
  }

  /** Takes the lock if it is free, or draws the fence of one that the session has waited for. */
  async #acquire(own: AdvisoryRequest, session: Session, io: Io): Promise<boolean> {
    session.onEnd = () => {
      if (own.phase === "held") this.#reportLoss?.(own.request.id, "session");
    };
    try {
      const drawn = own.phase === "locked" ? this.#backend.drawFence(session, own, io) : null;
      const fence = await (drawn ?? this.#backend.tryLock(session, own, io));
      if (fence === null) return false;
      own.fence = fence;
      own.phase = "held";
      return true;
    } catch (error) {
      // The lock may have been taken before the statement failed.
      session.kill();
      throw error;
    }
  }

  /** The session waits in the server, so the question goes through another one. */
  async #askWhileWaiting(own: AdvisoryRequest, request: Request, io: Io): Promise<AttemptAnswer<null>> {
    const session = own.session as Session;
    const { state, holders } = await this.#backend.inspect(request.keys[0] as string, session, io);
    if (state === "waits") return { busy: toBusy(holders, (holder) => holder, this.guarantees.pollMs) };
    // The session has the lock or is gone. If the reply does not come either, the connection is of no use.
    await Promise.race([own.waitEnded, io.sleep(REPLY_MS)]);
    if ((own.phase as Phase) === "locked") return this.#attempt(own, request, io);
    session.kill();
    return { busy: toBusy(holders, (holder) => holder, 0) };
  }

  #renew({ request, ttlMs, lastFences, label }: RenewItem<null>, io: Io): Promise<RenewAnswer> {
    const own = this.#requests.get(request.id);
    if (own === undefined) return Promise.resolve({ state: "lost", reason: "gone" });
    // Never less: of two renewals under way the one that asked for more may have been confirmed already.
    own.lastsMs = Math.max(own.lastsMs, ttlMs + request.graceMs);
    return this.#do("renew the lease", request.keys[0], () =>
      own.run(async () => {
        const answer = await this.#renewOne(own, lastFences[0] ?? own.fence, label, io);
        return answer.state === "renewed" ? { ...answer, validMs: ttlMs } : answer;
      }),
    );
  }

  async #renewOne(own: AdvisoryRequest, used: bigint, label: string | null, io: Io): Promise<RenewAnswer> {
    const { session, phase } = own;
    if (session === null || session.dead || phase !== "held") return { state: "lost", reason: "session" };
    const answer = await this.#backend.renew(session, own, { used, label }, io).catch((error: unknown) => {
      // The lock has ended with its connection.
      if (session.dead) return "ended" as const;
      throw error;
    });
    if (answer === "ended") return { state: "lost", reason: "session" };
    if (answer === "held") return { state: "renewed", validMs: own.request.ttlMs };
    if (answer === "gone") return { state: "lost", reason: "gone" };
    return { state: "lost", reason: "revoked", detail: answer.revoked };
  }

  /** `used` null: nobody can say which fences were used. */
  async #end(request: Request, used: bigint | null, io: Io): Promise<boolean> {
    this.#ended.add(request.id, this.#env.system.monoMs());
    const own = this.#requests.get(request.id);
    const session = own?.session ?? null;
    if (own === undefined || session === null) {
      this.#requests.delete(request.id);
      return false;
    }
    session.onEnd = null;
    // Only a session that holds the lock can release it, and nobody waits for one that is to be given up.
    if (own.phase !== "held" || session.dead || (own.isBusy && used === null)) {
      await this.#backend.end(session, io);
      this.#requests.delete(request.id);
      return false;
    }
    try {
      const held = await own.run(() => this.#backend.release(session, own, used, io));
      this.#requests.delete(request.id);
      this.#backend.giveBack(session);
      return held;
    } catch (error) {
      session.kill();
      throw error;
    }
  }

  async #do<T>(doing: string, key: string | undefined, run: () => Promise<T>): Promise<T> {
    if (this.#isClosed) throw new StoreUnavailableError("the store is closed", { key, retryable: false });
    try {
      return await run();
    } catch (error) {
      throw this.#backend.toLockError(error, doing, key);
    }
  }
}

function granted({ fence, reservedFences }: AdvisoryRequest, { ttlMs }: Request): AttemptAnswer<null> {
  return { granted: { fences: [fence], reservedFences, validMs: ttlMs, cookie: null } };
}
