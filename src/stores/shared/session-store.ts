// The store contract over locks that end with their connection, on a database with a SessionBackend. Each
// lock has a session of its own. If core stops waiting for a call, the session is closed, because its
// state is then unknown.

import { StoreUnavailableError, UnsupportedError } from "../../core/errors.ts";
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
} from "../../core/store.ts";
import { abandonEach } from "./abandon-each.ts";
import { EndedIds } from "./ended-ids.ts";
import { toBusy } from "./busy.ts";
import type { Subscriptions } from "./subscriptions.ts";
import type { LockSession, SessionBackend } from "./session-backend.ts";
import { type Phase, SessionRequest } from "./session-request.ts";

/** How long the reply of a session whose wait has ended may take. */
const REPLY_MS = 200;

export class SessionStore<S extends LockSession> implements OpenStore<null> {
  readonly guarantees: Guarantees;
  readonly #backend: SessionBackend<S>;
  readonly #env: StoreEnv;
  readonly #subscriptions: Subscriptions;
  readonly #requests = new Map<string, SessionRequest<S>>();
  readonly #ended = new EndedIds();
  #lossListener: ((id: string, reason: LossReason, detail?: string) => void) | null = null;
  #closed = false;

  /** `subscriptions` receives the revocations that the backend is notified of. */
  constructor(
    backend: SessionBackend<S>,
    subscriptions: Subscriptions,
    guarantees: Guarantees,
    env: StoreEnv,
  ) {
    this.#backend = backend;
    this.#subscriptions = subscriptions;
    this.guarantees = guarantees;
    this.#env = env;
  }

  attempt(request: Request, io: Io): Promise<AttemptAnswer<null>> {
    if (this.#ended.has(request.id)) return Promise.resolve({ ended: true });
    const own = this.#requests.get(request.id) ?? new SessionRequest<S>(request);
    this.#requests.set(request.id, own);
    return this.#run("try for the lock", request.keys[0], async () => {
      const answer = await own.runExclusive(() => this.#attempt(own, request, io));
      if ("ended" in answer || ("busy" in answer && !request.queue)) {
        this.#requests.delete(request.id);
        this.#ended.add(request.id, this.#env.system.monoMs());
      }
      this.#backend.clean(io);
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
    return this.#run("be told of the release", request.keys[0], async () =>
      (await this.#end(request, options.lastFences[0] ?? null, io)) ? "released" : "not-held",
    );
  }

  abandon(requests: readonly Request[], io: Io): Promise<readonly Request[]> {
    return abandonEach(requests, io, (request, once) =>
      this.#run("be told that the request has ended", request.keys[0], () => this.#end(request, null, once)),
    );
  }

  /** Closes the connection: the server then releases the lock. */
  forget(request: Request): void {
    this.#ended.add(request.id, this.#env.system.monoMs());
    const session = this.#requests.get(request.id)?.session ?? null;
    this.#requests.delete(request.id);
    if (session === null) return;
    session.onEnd = null;
    session.kill();
  }

  subscribe(request: Request, wake: () => void): Promise<() => void> {
    const off = this.#subscriptions.add(request.id, wake);
    if (this.#requests.get(request.id)?.phase === "locked") wake();
    return Promise.resolve(off);
  }

  onLoss(listener: (id: string, reason: LossReason, detail?: string) => void): () => void {
    this.#lossListener = listener;
    const off = this.#subscriptions.onLoss((id, reason, detail) => {
      if (this.#requests.has(id)) listener(id, reason, detail);
    });
    return () => {
      this.#lossListener = null;
      off();
    };
  }

  owns(request: Request, _cookie: null, io: Io): Promise<boolean> {
    return this.#run("be asked for the owner", request.keys[0], async () => {
      const own = this.#requests.get(request.id);
      if (own === undefined) return false;
      return (await own.runExclusive(() => this.#touch(own, own.fence, null, io))).state === "renewed";
    });
  }

  note(request: Request, _cookie: null, note: Note, io: Io): Promise<void> {
    return this.#run("write the note", request.keys[0], async () => {
      if (this.#requests.get(request.id)?.phase !== "held") return;
      await this.#backend.note(request.id, note?.waitingFor ?? null, io);
    });
  }

  /** `waiters` is null: the server knows only the waiters whose session waits in it at the moment. */
  inspect(key: string, io: Io): Promise<LockInfo | null> {
    return this.#run("be asked who holds the lock", key, async () => {
      const { holders } = await this.#backend.inspect(key, null, io);
      return holders.length === 0 ? null : { key, limit: 1, holders, waiters: null };
    });
  }

  async *list(options: { readonly prefix: string; readonly limit: number }, io: Io): AsyncIterable<LockInfo> {
    const all = await this.#run("list the locks", undefined, () => this.#backend.list(options.prefix, io));
    let left = options.limit;
    for (const info of all) {
      if (left <= 0) return;
      left -= 1;
      yield info;
    }
  }

  revoke(key: string, options: RevokeOptions, io: Io): Promise<RevokeAnswer> {
    return this.#run("revoke the lock", key, () => this.#backend.revoke(key, options, io));
  }

  check(io: Io): Promise<readonly Finding[]> {
    return this.#run("be checked", undefined, () => this.#backend.check(io));
  }

  inTransaction(tx: unknown): TransactionDesk {
    const transaction = this.#backend.inTransaction?.(tx);
    if (transaction === undefined) throw new UnsupportedError("this store cannot lock in a transaction");
    return {
      attempt: (spec, io) =>
        this.#run("lock in the transaction", spec.keys[0], () => transaction.attempt(spec, io)),
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#subscriptions.clear();
    for (const { session } of this.#requests.values()) if (session !== null) session.onEnd = null;
    this.#requests.clear();
    await this.#backend.close();
  }

  async #attempt(own: SessionRequest<S>, request: Request, io: Io): Promise<AttemptAnswer<null>> {
    if (own.session?.dead === true || own.phase === "lost") {
      const { phase, session } = own;
      own.session = null;
      own.phase = "new";
      if (session !== null) await this.#backend.end(session, io);
      if (phase === "held") return { ended: true };
    }
    if (own.phase === "held") {
      const { state } = await this.#touch(own, own.fence, null, io);
      return state === "renewed" ? granted(own, request) : { ended: true };
    }
    if (own.phase === "waiting") return this.#stillBusy(own, request, io);
    const session = (own.session ??= await this.#backend.open(io));
    if (this.#ended.has(request.id)) {
      // The request was released or abandoned while its session was opened.
      own.session = null;
      this.#backend.reuse(session);
      return { ended: true };
    }
    if (await this.#take(own, session, io)) return granted(own, request);
    if (request.queue) {
      own.wait(session, this.#backend.wait(session, own), () =>
        this.#subscriptions.deliver(`look ${request.id}`),
      );
    } else {
      own.session = null;
      this.#backend.reuse(session);
    }
    const { holders } = await this.#backend.inspect(request.keys[0] as string, null, io);
    return { busy: toBusy(holders, (holder) => holder, this.guarantees.pollMs) };
  }

  /** Takes the lock if it is free, or draws the fence of a lock that the session already has. */
  async #take(own: SessionRequest<S>, session: S, io: Io): Promise<boolean> {
    session.onEnd = () => {
      if (own.phase === "held") this.#lossListener?.(own.request.id, "session");
    };
    try {
      const drawn = own.phase === "locked" ? this.#backend.drawFence(session, own, io) : null;
      const fence = await (drawn ?? this.#backend.take(session, own, io));
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

  /** For a session that waits in the server. Another session asks about it. */
  async #stillBusy(own: SessionRequest<S>, request: Request, io: Io): Promise<AttemptAnswer<null>> {
    const session = own.session as S;
    const { own: ownState, holders } = await this.#backend.inspect(request.keys[0] as string, session, io);
    if (ownState === "waits") return { busy: toBusy(holders, (holder) => holder, this.guarantees.pollMs) };
    // The session has the lock, or is gone. Wait for its reply. If none comes, its connection is dead.
    await Promise.race([own.waited, io.sleep(REPLY_MS)]);
    if ((own.phase as Phase) === "locked") return this.#attempt(own, request, io);
    session.kill();
    return { busy: toBusy(holders, (holder) => holder, 0) };
  }

  #renew({ request, ttlMs, lastFences, label }: RenewItem<null>, io: Io): Promise<RenewAnswer> {
    const own = this.#requests.get(request.id);
    if (own === undefined) return Promise.resolve({ state: "lost", reason: "gone" });
    // Never shorten: of two concurrent renewals, the server may have confirmed the longer one first.
    own.lastsMs = Math.max(own.lastsMs, ttlMs + request.graceMs);
    return this.#run("renew the lease", request.keys[0], () =>
      own.runExclusive(async () => {
        const answer = await this.#touch(own, lastFences[0] ?? own.fence, label, io);
        return answer.state === "renewed" ? { ...answer, validMs: ttlMs } : answer;
      }),
    );
  }

  async #touch(own: SessionRequest<S>, used: bigint, label: string | null, io: Io): Promise<RenewAnswer> {
    const { session, phase } = own;
    if (session === null || session.dead || phase !== "held") return { state: "lost", reason: "session" };
    const answer = await this.#backend.touch(session, own, { used, label }, io).catch((error: unknown) => {
      // The server releases the lock when the connection ends.
      if (session.dead) return "ended" as const;
      throw error;
    });
    if (answer === "ended") return { state: "lost", reason: "session" };
    if (answer === "held") return { state: "renewed", validMs: own.request.ttlMs };
    if (answer === "gone") return { state: "lost", reason: "gone" };
    return { state: "lost", reason: "revoked", detail: answer.revoked };
  }

  /** `used` null: the last used fence is unknown. */
  async #end(request: Request, used: bigint | null, io: Io): Promise<boolean> {
    this.#ended.add(request.id, this.#env.system.monoMs());
    const own = this.#requests.get(request.id);
    const session = own?.session ?? null;
    if (own === undefined || session === null) {
      this.#requests.delete(request.id);
      return false;
    }
    session.onEnd = null;
    // Only an idle session with a lock can release it by a statement. An abandoned request does not wait
    // for a running statement. In all other cases the session is closed.
    if (own.phase !== "held" || session.dead || (own.isBusy && used === null)) {
      await this.#backend.end(session, io);
      this.#requests.delete(request.id);
      return false;
    }
    try {
      const held = await own.runExclusive(() => this.#backend.release(session, own, used, io));
      this.#requests.delete(request.id);
      this.#backend.reuse(session);
      return held;
    } catch (error) {
      session.kill();
      throw error;
    }
  }

  async #run<T>(doing: string, key: string | undefined, run: () => Promise<T>): Promise<T> {
    if (this.#closed) throw new StoreUnavailableError("the store is closed", { key, retryable: false });
    try {
      return await run();
    } catch (error) {
      throw this.#backend.toError(error, doing, key);
    }
  }
}

function granted<S extends LockSession>(
  { fence, room }: SessionRequest<S>,
  { ttlMs }: Request,
): AttemptAnswer<null> {
  return { granted: { fences: [fence], reservedFences: room, validMs: ttlMs, cookie: null } };
}
