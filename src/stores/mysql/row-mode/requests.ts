// All requests of one opened store in row mode, and every step that changes the state of one. A step that
// fails leaves the request as if it had never begun, and its session is ended for certain before anything
// else is done for it.

import type { Io, RenewItem, Request } from "../../../core/store.ts";
import { ROW_CLAIM_MS } from "../guarantees.ts";
import type { RowMetadata } from "./metadata.ts";
import type { RowSession } from "./session.ts";
import type { RowSessions } from "./sessions.ts";
import { idleSeconds, RowRequest } from "./request.ts";

/** So long a wait that was cut may take to tell. */
const CUT_AGAIN_MS = 50;

/** What the store is told of its requests. */
export interface News {
  /** A wait is over: the row may be there. */
  woken(rowRequest: RowRequest): void;
  /** The session of a holder has ended by itself. */
  lost(rowRequest: RowRequest): void;
}

export class RowRequests {
  readonly sessions: RowSessions;
  readonly #metadata: RowMetadata;
  readonly #news: News;
  readonly #byId = new Map<string, RowRequest>();
  /** Tokens of sessions that ended without the server's word, by the id that they served. */
  readonly #doubtful = new Map<string, string>();

  constructor(sessions: RowSessions, metadata: RowMetadata, news: News) {
    this.sessions = sessions;
    this.#metadata = metadata;
    this.#news = news;
  }

  of(request: Request): RowRequest {
    const known = this.#byId.get(request.id);
    if (known !== undefined) return known;
    const rowRequest = new RowRequest(request);
    this.#byId.set(request.id, rowRequest);
    return rowRequest;
  }

  held(id: string): RowRequest | null {
    const rowRequest = this.#byId.get(id);
    return rowRequest?.state === "held" ? rowRequest : null;
  }

  allHeld(): RowRequest[] {
    return [...this.#byId.values()].filter((rowRequest) => rowRequest.state === "held");
  }

  /** Runs a step. When it fails, or nobody waits for it any more, the session goes with it. */
  async guarded<T>(rowRequest: RowRequest, io: Io, step: () => Promise<T>): Promise<T> {
    const giveUp = (): void => {
      // A wait costs nobody anything and goes on; a hold ends by its own rules.
      if (rowRequest.state === "new" || rowRequest.state === "locked") this.#reset(rowRequest);
    };
    const giveUpSilent = (): void => {
      this.sessions.dropIdle();
      giveUp();
    };
    io.signal.addEventListener("abort", giveUpSilent);
    try {
      return await step();
    } catch (error) {
      giveUp();
      throw error;
    } finally {
      io.signal.removeEventListener("abort", giveUpSilent);
    }
  }

  /**
   * Asks for the row without waiting; when another has it and there is a line to stand in, waits in the
   * background.
   */
  async begin(rowRequest: RowRequest, io: Io): Promise<void> {
    const { request } = rowRequest;
    await this.#settleDoubt(request.id, io);
    const session = await this.sessions.take(idleSeconds(request), io);
    if (rowRequest.state !== "new") return this.sessions.giveBack(session, "ROLLBACK");
    rowRequest.session = session;
    const [key] = request.keys as readonly [string];
    const [hash, shared] = [this.#metadata.hash(key), request.mode === "shared"];
    let got = await session.lock(hash, shared, false);
    while (got === null) {
      await this.#metadata.add(key, io);
      got = await session.lock(hash, shared, false);
    }
    if (rowRequest.state !== "new") return;
    if (got) rowRequest.state = "locked";
    else if (request.queue) this.#wait(rowRequest, session, hash, shared);
    else await this.#leave(rowRequest, session);
  }

  /** The row is locked: a fence, then a sign that the lock was there while it was drawn. */
  async grant(rowRequest: RowRequest, io: Io): Promise<void> {
    const { request, session } = rowRequest;
    if (session === null) throw new Error("no session holds the row");
    const seconds = idleSeconds(request);
    // The fence goes another way, and may take longer than the server waits for one whose turn has come.
    const drawing = this.#metadata.draw(request, session.token, seconds * 1_000, io);
    const [drawn] = await Promise.all([drawing, session.limit(seconds)]);
    await session.keep(seconds);
    if (rowRequest.state !== "locked") throw new Error("the request has ended");
    rowRequest.drawn = drawn;
    rowRequest.used = drawn.fence;
    rowRequest.label = request.label;
    rowRequest.state = "held";
    session.onLost = () => {
      if (rowRequest.state === "held") this.#news.lost(rowRequest);
    };
  }

  /**
   * A renewal: shows life, and brings the record up to date where it has changed. True when the session
   * lives.
   */
  async keep({ request, ttlMs, lastFences, label }: RenewItem<null>, io: Io): Promise<boolean> {
    const rowRequest = this.held(request.id);
    if (rowRequest?.session === null || rowRequest?.session === undefined || !rowRequest.session.alive)
      return false;
    const used = Number(lastFences[0] ?? rowRequest.used);
    const seconds = idleSeconds({ ttlMs, graceMs: request.graceMs });
    const keeping = rowRequest.session.keep(seconds);
    // Looked at below; the session may end before that, and what nobody has heard of ends a process.
    keeping.catch(() => {});
    if (used !== rowRequest.used || label !== rowRequest.label) {
      await this.#metadata.update(request, rowRequest.session.token, used, label, io);
      [rowRequest.used, rowRequest.label] = [used, label];
    }
    return this.#lives(rowRequest.session, keeping, io);
  }

  async alive(rowRequest: RowRequest, io: Io): Promise<boolean> {
    return rowRequest.session !== null && this.#lives(rowRequest.session, rowRequest.session.keep(0), io);
  }

  /** The holder lets go. False when it did not hold. */
  async release(id: string, used: number | null, io: Io): Promise<boolean> {
    const rowRequest = this.#byId.get(id);
    if (rowRequest === undefined) return false;
    const held = rowRequest.state === "held" && rowRequest.session?.alive === true;
    await this.#finish(rowRequest, used, io);
    return held && rowRequest.session !== null;
  }

  /** Whatever the request has at the server is taken back. */
  async forget(id: string, io: Io): Promise<void> {
    const rowRequest = this.#byId.get(id);
    if (rowRequest !== undefined) await this.#finish(rowRequest, null, io);
    await this.#settleDoubt(id, io);
  }

  /** As `forget`, but the server is left to see the end of the connection by itself. */
  drop(id: string): void {
    const rowRequest = this.#byId.get(id);
    this.#byId.delete(id);
    this.#doubtful.delete(id);
    if (rowRequest === undefined) return;
    rowRequest.state = "over";
    rowRequest.session?.destroy();
  }

  async close(): Promise<void> {
    const rowRequests = [...this.#byId.values()];
    this.#byId.clear();
    for (const rowRequest of rowRequests) {
      rowRequest.state = "over";
      rowRequest.session?.destroy();
    }
    this.sessions.close();
    await Promise.allSettled(rowRequests.map((rowRequest) => rowRequest.waiting));
  }

  /**
   * Who does not answer when its turn comes is passed over, long before a holder would be: the server ends
   * its session.
   */
  #wait(rowRequest: RowRequest, session: RowSession, hash: Uint8Array, shared: boolean): void {
    rowRequest.state = "waiting";
    const claiming = session.limit(ROW_CLAIM_MS / 1_000);
    // Whoever ends the wait cuts a statement, and it may have been this one.
    const waiting = claiming.then(() => rowRequest.state === "waiting" && session.lock(hash, shared, true));
    rowRequest.waiting = waiting.then(
      (got) => {
        if (rowRequest.state !== "waiting") return;
        // null: the row was cleared away while it waited.
        if (got === true) rowRequest.state = "locked";
        else this.#reset(rowRequest);
        this.#news.woken(rowRequest);
      },
      () => {
        if (rowRequest.state !== "waiting") return;
        this.#reset(rowRequest);
        this.#news.woken(rowRequest);
      },
    );
  }

  /** Ends a turn in whatever state it is. */
  async #finish(rowRequest: RowRequest, used: number | null, io: Io): Promise<void> {
    const { state, session, request, drawn } = rowRequest;
    rowRequest.state = "over";
    this.#byId.delete(request.id);
    if (session === null || state === "over") return;
    const stop = (): void => session.destroy();
    io.signal.addEventListener("abort", stop);
    try {
      if (state === "new") throw new Error("its answer is still under way");
      if (state === "waiting") await this.#stopWaiting(rowRequest, session, io);
      const clearing =
        drawn === null ? Promise.resolve() : this.#metadata.clear(request, session.token, drawn, used, io);
      await Promise.all([this.sessions.giveBack(session, drawn === null ? "ROLLBACK" : "COMMIT"), clearing]);
    } catch {
      // The session's fate is not known: its end is made sure of.
      session.destroy();
      rowRequest.session = null;
      this.#doubtful.set(request.id, session.token);
      await this.#settleDoubt(request.id, io);
    } finally {
      io.signal.removeEventListener("abort", stop);
    }
  }

  /**
   * A cut that reaches the server before the wait itself does cuts nothing: it is tried until the wait is
   * over.
   */
  async #stopWaiting(rowRequest: RowRequest, session: RowSession, io: Io): Promise<void> {
    const over = rowRequest.waiting.then(() => true);
    do await this.sessions.cut(session, io);
    while (!(await Promise.race([over, io.sleep(CUT_AGAIN_MS)])));
  }

  /** Nobody will ask again: the session goes back, and nothing of the request is left. */
  async #leave(rowRequest: RowRequest, session: RowSession): Promise<void> {
    rowRequest.state = "waiting";
    this.#byId.delete(rowRequest.request.id);
    await this.sessions.giveBack(session, "ROLLBACK");
  }

  /** The request goes on from the beginning, with another session. */
  #reset(rowRequest: RowRequest): void {
    const { session } = rowRequest;
    rowRequest.session = null;
    rowRequest.state = "new";
    if (session === null) return;
    session.destroy();
    this.#doubtful.set(rowRequest.request.id, session.token);
  }

  async #settleDoubt(id: string, io: Io): Promise<void> {
    const token = this.#doubtful.get(id);
    if (token === undefined) return;
    await this.sessions.finishOff(token, io);
    this.#doubtful.delete(id);
  }

  /** False when the session has ended; a server that does not answer is unknown. */
  async #lives(session: RowSession, keeping: Promise<void>, io: Io): Promise<boolean> {
    let late = (): void => {};
    const silence = new Promise<never>((_resolve, reject) => {
      late = () => reject(new Error("the server did not answer"));
      io.signal.addEventListener("abort", late);
    });
    try {
      await Promise.race([keeping, silence]);
      return true;
    } catch (error) {
      if (session.alive) throw error;
      return false;
    } finally {
      io.signal.removeEventListener("abort", late);
    }
  }
}
