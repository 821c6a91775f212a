// The sessions of row mode: taken from the idle ones or opened, and given back when they hold nothing. A session whose state is
// not known is never given back; it is ended, and its end is made sure of at the server by its token.

import type { System } from "../../core/system.ts";
import { sessionOf } from "./bell.ts";
import { retryWhileUnsent } from "../shared/retry-while-unsent.ts";
import { codeOf, mysqlError } from "./errors.ts";
import type { Link, Patience } from "./link.ts";
import type { SqlConnection } from "./port.ts";
import { type Dialect, RowSession } from "./row-session.ts";

const IDLE_KEPT = 8;
const TOKEN_LENGTH = 32;
/** KILL of a session that has just ended. */
const NO_SUCH_SESSION = 1094;
const LOOK_EVERY_MS = 2;

export class RowSessions {
  readonly #connect: () => Promise<SqlConnection>;
  readonly #dialect: Dialect;
  readonly #link: Link;
  readonly #system: System;
  #idle: RowSession[] = [];
  #closed = false;

  constructor(connect: () => Promise<SqlConnection>, dialect: Dialect, link: Link, system: System) {
    this.#connect = connect;
    this.#dialect = dialect;
    this.#link = link;
    this.#system = system;
  }

  /** A new session is connected within the timeout of the call. */
  async take(waitSeconds: number, io: Patience): Promise<RowSession> {
    for (let session = this.#idle.pop(); session !== undefined; session = this.#idle.pop()) {
      if (!session.fresh(this.#system.monoMs())) {
        session.destroy();
        continue;
      }
      await session.limit(waitSeconds);
      return session;
    }
    const token = this.#system.randomId().slice(0, TOKEN_LENGTH);
    const connection = await retryWhileUnsent(
      io,
      () => this.#system.monoMs(),
      () => this.#connect(),
      { isUnsent: (error) => !this.#closed && mysqlError(error, "be reached").retryable },
    );
    try {
      return await RowSession.begin(connection, token, this.#dialect, waitSeconds, this.#system.monoMs());
    } catch (error) {
      connection.destroy();
      throw error;
    }
  }

  /** Ends its transaction, then keeps it for the next. Rejects when the end is not known; the session is gone then. */
  async giveBack(session: RowSession, how: "COMMIT" | "ROLLBACK"): Promise<void> {
    try {
      await session.end(how, this.#system.monoMs());
    } catch (error) {
      session.destroy();
      throw error;
    }
    if (this.#closed || this.#idle.length >= IDLE_KEPT) session.destroy();
    else this.#idle.push(session);
  }

  /** One session did not answer: those that rest may be half open too, and a new one is quickly made. */
  dropIdle(): void {
    for (const session of this.#idle.splice(0)) session.destroy();
  }

  /** Cuts the wait of a session that is still ours. */
  async cut(session: RowSession, io: Patience): Promise<void> {
    const id = await sessionOf(this.#link, session.token, io);
    if (id !== null) await this.#kill(`KILL QUERY ${id}`, io);
  }

  /** Makes sure that a session is over at the server, with everything that it held. */
  async finishOff(token: string, io: Patience): Promise<void> {
    for (let killed = false; ;) {
      const id = await sessionOf(this.#link, token, io);
      if (id === null) return;
      if (!killed) await this.#kill(`KILL ${id}`, io);
      killed = true;
      if (io.signal.aborted) throw new Error("the session did not end in time");
      await io.sleep(LOOK_EVERY_MS);
    }
  }

  close(): void {
    this.#closed = true;
    for (const session of this.#idle) session.destroy();
    this.#idle = [];
  }

  async #kill(statement: string, io: Patience): Promise<void> {
    try {
      await this.#link.run(statement, [], io);
    } catch (error) {
      if (codeOf(error) !== NO_SUCH_SESSION) throw error;
    }
  }
}
