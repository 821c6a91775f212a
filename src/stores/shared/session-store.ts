// The contract on locks that live and die with a connection, for every database that can do what session-desk.ts asks for.
// A lock has a session of its own. Whoever stops listening to a call gives the session up, because nobody could tell any
// more what it holds.

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
import type { Pushes } from "./pushes.ts";
import type { LockSession, SessionDesk } from "./session-desk.ts";
import { type Phase, Seat } from "./session-seat.ts";

/** How long the news of a lock that the server has given may take. */
const NEWS_MS = 200;

export class SessionStore<S extends LockSession> implements OpenStore<null> {
  readonly guarantees: Guarantees;
  readonly #desk: SessionDesk<S>;
  readonly #env: StoreEnv;
  readonly #pushes: Pushes;
  readonly #seats = new Map<string, Seat<S>>();
  readonly #ended = new EndedIds();
  #tellLoss: ((id: string, reason: LossReason, detail?: string) => void) | null = null;
  #closed = false;

  /** `pushes`: where the desk tells of revocations. */
  constructor(desk: SessionDesk<S>, pushes: Pushes, guarantees: Guarantees, env: StoreEnv) {
    this.#desk = desk;
    this.#pushes = pushes;
    this.guarantees = guarantees;
    this.#env = env;
  }

  attempt(request: Request, io: Io): Promise<AttemptAnswer<null>> {
    if (this.#ended.has(request.id)) return Promise.resolve({ ended: true });
    const seat = this.#seats.get(request.id) ?? new Seat<S>(request);
    this.#seats.set(request.id, seat);
    return this.#do("try for the lock", request.keys[0], async () => {
      const answer = await seat.turn(() => this.#attempt(seat, request, io));
      if ("ended" in answer || ("busy" in answer && !request.queue)) {
        this.#seats.delete(request.id);
        this.#ended.add(request.id, this.#env.system.monoMs());
      }
      this.#desk.clean(io);
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
    return this.#do("be told of the release", request.keys[0], async () =>
      (await this.#end(request, options.lastFences[0] ?? null, io)) ? "released" : "not-held",
    );
  }

  abandon(requests: readonly Request[], io: Io): Promise<readonly Request[]> {
    return abandonEach(requests, io, (request, once) =>
      this.#do("be told that the request has ended", request.keys[0], () => this.#end(request, null, once)),
    );
  }

  /** The server ends the lock when it sees the end of the connection. */
  forget(request: Request): void {
    this.#ended.add(request.id, this.#env.system.monoMs());
    const session = this.#seats.get(request.id)?.session ?? null;
    this.#seats.delete(request.id);
    if (session === null) return;
    session.onEnd = null;
    session.kill();
  }

  subscribe(request: Request, wake: () => void): Promise<() => void> {
    const off = this.#pushes.add(request.id, wake);
    if (this.#seats.get(request.id)?.phase === "locked") wake();
    return Promise.resolve(off);
  }

  onLoss(tell: (id: string, reason: LossReason, detail?: string) => void): () => void {
    this.#tellLoss = tell;
    const off = this.#pushes.onLoss((id, reason, detail) => {
      if (this.#seats.has(id)) tell(id, reason, detail);
    });
    return () => {
      this.#tellLoss = null;
      off();
    };
  }

  owns(request: Request, _cookie: null, io: Io): Promise<boolean> {
    return this.#do("be asked for the owner", request.keys[0], async () => {
      const seat = this.#seats.get(request.id);
      if (seat === undefined) return false;
      return (await seat.turn(() => this.#touch(seat, seat.fence, null, io))).state === "renewed";
    });
  }

  note(request: Request, _cookie: null, note: Note, io: Io): Promise<void> {
    return this.#do("write the note", request.keys[0], async () => {
      if (this.#seats.get(request.id)?.phase !== "held") return;
      await this.#desk.note(request.id, note?.waitingFor ?? null, io);
    });
  }

  /** Who waits is known to the server only for as long as it waits there, so nobody is told. */
  inspect(key: string, io: Io): Promise<LockInfo | null> {
    return this.#do("be asked who holds the lock", key, async () => {
      const { holders } = await this.#desk.look(key, null, io);
      return holders.length === 0 ? null : { key, limit: 1, holders, waiters: null };
    });
  }

  async *list(options: { readonly prefix: string; readonly limit: number }, io: Io): AsyncIterable<LockInfo> {
    const all = await this.#do("list the locks", undefined, () => this.#desk.list(options.prefix, io));
    let left = options.limit;
    for (const info of all) {
      if (left <= 0) return;
      left -= 1;
      yield info;
    }
  }

  revoke(key: string, options: RevokeOptions, io: Io): Promise<RevokeAnswer> {
    return this.#do("revoke the lock", key, () => this.#desk.revoke(key, options, io));
  }

  check(io: Io): Promise<readonly Finding[]> {
    return this.#do("be checked", undefined, () => this.#desk.check(io));
  }

  inTransaction(tx: unknown): TransactionDesk {
    const desk = this.#desk.inTransaction?.(tx);
    if (desk === undefined) throw new UnsupportedError("this store cannot lock in a transaction");
    return {
      attempt: (wish, io) => this.#do("lock in the transaction", wish.keys[0], () => desk.attempt(wish, io)),
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#pushes.clear();
    for (const { session } of this.#seats.values()) if (session !== null) session.onEnd = null;
    this.#seats.clear();
    await this.#desk.close();
  }

  async #attempt(seat: Seat<S>, request: Request, io: Io): Promise<AttemptAnswer<null>> {
    if (seat.session?.dead === true || seat.phase === "lost") {
      const { phase, session } = seat;
      seat.session = null;
      seat.phase = "new";
      if (session !== null) await this.#desk.end(session, io);
      if (phase === "held") return { ended: true };
    }
    if (seat.phase === "held") {
      const { state } = await this.#touch(seat, seat.fence, null, io);
      return state === "renewed" ? granted(seat, request) : { ended: true };
    }
    if (seat.phase === "waiting") return this.#stillBusy(seat, request, io);
    const session = (seat.session ??= await this.#desk.open(io));
    if (this.#ended.has(request.id)) {
      // It was given up while its session was opened.
      seat.session = null;
      this.#desk.giveBack(session);
      return { ended: true };
    }
    if (await this.#take(seat, session, io)) return granted(seat, request);
    if (request.queue) {
      seat.wait(session, this.#desk.wait(session, seat), () => this.#pushes.hear(`look ${request.id}`));
    } else {
      seat.session = null;
      this.#desk.giveBack(session);
    }
    const { holders } = await this.#desk.look(request.keys[0] as string, null, io);
    return { busy: toBusy(holders, (holder) => holder, this.guarantees.pollMs) };
  }

  /** Takes the lock if it is free, or draws the fence of one that the session has waited for. */
  async #take(seat: Seat<S>, session: S, io: Io): Promise<boolean> {
    session.onEnd = () => {
      if (seat.phase === "held") this.#tellLoss?.(seat.request.id, "session");
    };
    try {
      const drawn = seat.phase === "locked" ? this.#desk.draw(session, seat, io) : null;
      const fence = await (drawn ?? this.#desk.take(session, seat, io));
      if (fence === null) return false;
      seat.fence = fence;
      seat.phase = "held";
      return true;
    } catch (error) {
      // The lock may have been taken before the statement failed.
      session.kill();
      throw error;
    }
  }

  /** The session waits in the server: it is asked for through another one. */
  async #stillBusy(seat: Seat<S>, request: Request, io: Io): Promise<AttemptAnswer<null>> {
    const session = seat.session as S;
    const { own, holders } = await this.#desk.look(request.keys[0] as string, session, io);
    if (own === "waits") return { busy: toBusy(holders, (holder) => holder, this.guarantees.pollMs) };
    // It has the lock, or is gone: the news of it is on its way, and if it does not come the connection is of no use.
    await Promise.race([seat.waited, io.sleep(NEWS_MS)]);
    if ((seat.phase as Phase) === "locked") return this.#attempt(seat, request, io);
    session.kill();
    return { busy: toBusy(holders, (holder) => holder, 0) };
  }

  #renew({ request, ttlMs, lastFences, label }: RenewItem<null>, io: Io): Promise<RenewAnswer> {
    const seat = this.#seats.get(request.id);
    if (seat === undefined) return Promise.resolve({ state: "lost", reason: "gone" });
    // Never less: of two renewals under way the one that asked for more may have been confirmed already.
    seat.lastsMs = Math.max(seat.lastsMs, ttlMs + request.graceMs);
    return this.#do("renew the lease", request.keys[0], () =>
      seat.turn(async () => {
        const answer = await this.#touch(seat, lastFences[0] ?? seat.fence, label, io);
        return answer.state === "renewed" ? { ...answer, validMs: ttlMs } : answer;
      }),
    );
  }

  async #touch(seat: Seat<S>, used: bigint, label: string | null, io: Io): Promise<RenewAnswer> {
    const { session, phase } = seat;
    if (session === null || session.dead || phase !== "held") return { state: "lost", reason: "session" };
    const answer = await this.#desk.touch(session, seat, { used, label }, io).catch((error: unknown) => {
      // The lock has ended with its connection.
      if (session.dead) return "ended" as const;
      throw error;
    });
    if (answer === "ended") return { state: "lost", reason: "session" };
    if (answer === "held") return { state: "renewed", validMs: seat.request.ttlMs };
    if (answer === "gone") return { state: "lost", reason: "gone" };
    return { state: "lost", reason: "revoked", detail: answer.revoked };
  }

  /** `used` null: nobody can say which fences were used. */
  async #end(request: Request, used: bigint | null, io: Io): Promise<boolean> {
    this.#ended.add(request.id, this.#env.system.monoMs());
    const seat = this.#seats.get(request.id);
    const session = seat?.session ?? null;
    if (seat === undefined || session === null) {
      this.#seats.delete(request.id);
      return false;
    }
    session.onEnd = null;
    // Only a session that holds can be asked to let go, and one that is to be given up is not waited for; any other is ended.
    if (seat.phase !== "held" || session.dead || (seat.busy && used === null)) {
      await this.#desk.end(session, io);
      this.#seats.delete(request.id);
      return false;
    }
    try {
      const held = await seat.turn(() => this.#desk.drop(session, seat, used, io));
      this.#seats.delete(request.id);
      this.#desk.giveBack(session);
      return held;
    } catch (error) {
      session.kill();
      throw error;
    }
  }

  async #do<T>(doing: string, key: string | undefined, run: () => Promise<T>): Promise<T> {
    if (this.#closed) throw new StoreUnavailableError("the store is closed", { key, retryable: false });
    try {
      return await run();
    } catch (error) {
      throw this.#desk.say(error, doing, key);
    }
  }
}

function granted<S extends LockSession>({ fence, room }: Seat<S>, { ttlMs }: Request): AttemptAnswer<null> {
  return { granted: { fences: [fence], reservedFences: room, validMs: ttlMs, cookie: null } };
}
