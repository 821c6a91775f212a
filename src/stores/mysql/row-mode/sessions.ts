// The sessions of row mode: taken from the idle ones or opened, and given back when they hold nothing. A
// session whose state is not known is never given back; it is ended, and its end is made sure of at the
// server by its token.

import type { System } from "../../../core/system.ts";
import { sessionOf } from "../wakeup-session.ts";
import { markUnsent, StoreUnavailableError } from "../../../core/errors.ts";
import { retryWhileUnsent } from "../../shared/retry-while-unsent.ts";
import { codeOf, mysqlError } from "../errors.ts";
import type { ReconnectingConnection, StatementCall } from "../client/connection.ts";
import type { Dialect, SqlConnection } from "../client/port.ts";
import { RowSession } from "./session.ts";

const IDLE_KEPT = 8;
const TOKEN_LENGTH = 32;
/** KILL of a session that has just ended. */
const NO_SUCH_SESSION = 1094;
const LOOK_EVERY_MS = 2;

export interface RowSessionsDeps {
  readonly connect: () => Promise<SqlConnection>;
  readonly dialect: Dialect;
  /** For statements about other sessions. */
  readonly connection: ReconnectingConnection;
  readonly system: System;
  readonly maxConnections: number;
}

export class RowSessions {
  readonly #deps: RowSessionsDeps;
  #idle: RowSession[] = [];
  /** Sessions that are open or being opened. */
  #count = 0;
  #closed = false;

  constructor(deps: RowSessionsDeps) {
    this.#deps = deps;
  }

  /** A new session is connected within the timeout of the call. */
  async take(waitSeconds: number, io: StatementCall): Promise<RowSession> {
    for (let session = this.#idle.pop(); session !== undefined; session = this.#idle.pop()) {
      if (!session.fresh(this.#deps.system.monoMs())) {
        session.destroy();
        continue;
      }
      await session.limit(waitSeconds);
      return session;
    }
    if (this.#count >= this.#deps.maxConnections) throw markUnsent(tooManyError(this.#deps.maxConnections));
    this.#count += 1;
    const connection = await this.#open(io).catch((error: unknown) => {
      this.#count -= 1;
      throw error;
    });
    const { system, dialect } = this.#deps;
    const token = system.randomId().slice(0, TOKEN_LENGTH);
    try {
      const session = await RowSession.begin(connection, token, dialect, waitSeconds, system.monoMs());
      session.onDestroyed = () => (this.#count -= 1);
      return session;
    } catch (error) {
      this.#count -= 1;
      connection.destroy();
      throw error;
    }
  }

  #open(io: StatementCall): Promise<SqlConnection> {
    const { connect, system } = this.#deps;
    const isUnsent = (error: unknown): boolean => !this.#closed && mysqlError(error, "be reached").retryable;
    return retryWhileUnsent(io, () => system.monoMs(), connect, { isUnsent });
  }

  /**
   * Ends its transaction, then keeps it for the next. Rejects when the end is not known; the session is gone
   * then.
   */
  async giveBack(session: RowSession, how: "COMMIT" | "ROLLBACK"): Promise<void> {
    try {
      await session.end(how, this.#deps.system.monoMs());
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
  async cut(session: RowSession, io: StatementCall): Promise<void> {
    const id = await sessionOf(this.#deps.connection, session.token, io);
    if (id !== null) await this.#kill(`KILL QUERY ${id}`, io);
  }

  /** Makes sure that a session is over at the server, with everything that it held. */
  async finishOff(token: string, io: StatementCall): Promise<void> {
    for (let killed = false; ;) {
      const id = await sessionOf(this.#deps.connection, token, io);
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

  async #kill(statement: string, io: StatementCall): Promise<void> {
    try {
      await this.#deps.connection.run(statement, [], io);
    } catch (error) {
      if (codeOf(error) !== NO_SUCH_SESSION) throw error;
    }
  }
}

function tooManyError(most: number): StoreUnavailableError {
  return new StoreUnavailableError(
    `row mode has ${most} connections that hold or wait for a lock, which is the most that ` +
      `maxConnections allows: ` +
      "raise it together with max_connections of the server, or use the lease table (without ?mode=row)",
  );
}
