// MySQL has no notifications. Each opened store therefore keeps one session waiting on the server, under a
// named lock by which others find it (IS_USED_LOCK), and whoever has news for the store ends that wait with
// KILL QUERY. A wake-up only saves time: a waiter whose wake-up is lost attempts again by itself.
//
// 1. The session waits in GET_LOCK for a second name, the blocking lock, which another session of the same
//    store holds. SELECT SLEEP would be simpler and must not be used: all sleepers of a MariaDB share one
//    mutex, and a KILL that meets it taken keeps every other KILL and every new connection waiting for two
//    seconds.
// 2. A KILL QUERY that arrives before the next wait has started ends nothing. What it was for is committed
//    before it, so the lease table's statement asks first whether there is something to be read.
// 3. A KILL QUERY may also end what the session does between two waits: it reads again then.

import { codeOf, INTERRUPTED } from "./errors.ts";
import type { StatementCall } from "./client/connection.ts";
import type { Answer, SqlConnection, Value } from "./client/port.ts";

/** The server ends a wait whose client has vanished without a word after so long. */
const WAIT_S = 20;
const PLAIN_WAIT = `SELECT GET_LOCK(?, ${WAIT_S}) AS got`;

/** Whatever runs a statement that stands alone. */
export interface StatementRunner {
  run(sql: string, values: readonly Value[], call: StatementCall): Promise<Answer>;
}

export interface WakeupDeps {
  /** A session of its own. */
  connect(): Promise<SqlConnection>;
  /** Makes any other session of this store take a named lock, and hold it for as long as it lives. */
  block(name: string): Promise<unknown>;
  /** The statement that waits and its values after the blocking lock. Without it nothing is asked first. */
  waitStatement?(): readonly [sql: string, values: readonly Value[]];
  /** There may be something to be read, perhaps on the session itself. */
  onWake(session: SqlConnection): unknown;
  /** Nobody can wake this store any more, until `start` is called again. */
  onEnd?(): void;
}

/** down -> listening -> down -> ... -> closed. */
type Phase = "down" | "listening" | "closed";

export class WakeupSession {
  readonly #deps: WakeupDeps;
  readonly #token: string;
  #connection: SqlConnection | null = null;
  #phase: Phase = "down";
  #starting: Promise<void> | null = null;

  constructor(token: string, deps: WakeupDeps) {
    this.#token = token;
    this.#deps = deps;
  }

  /** Whether somebody could wake this store at the moment. */
  get isListening(): boolean {
    return this.#phase === "listening";
  }

  /**
   * Connects if it is down. Called whenever the store is used, because there is no timer to do it. Resolves
   * when it listens or cannot.
   */
  start(): Promise<void> {
    if (this.#phase === "closed") return Promise.resolve();
    if (this.#starting !== null) return this.#starting;
    const starting = new Promise<void>((resolve) => {
      const stop = (): void => {
        if (this.#starting === starting) this.drop();
        resolve();
      };
      // Later, because `starting` is not known yet.
      void Promise.resolve()
        .then(() => this.#listen(resolve))
        .then(stop, stop);
    });
    this.#starting = starting;
    return starting;
  }

  /** The session has ended, or may be half open. The next use of the store makes another one. */
  drop(): void {
    const wasListening = this.#phase === "listening";
    if (this.#phase !== "closed") this.#phase = "down";
    this.#connection?.destroy();
    this.#connection = null;
    this.#starting = null;
    if (wasListening) this.#deps.onEnd?.();
  }

  close(): void {
    this.#phase = "closed";
    this.#connection?.destroy();
  }

  async #listen(ready: () => void): Promise<void> {
    const connection = await this.#deps.connect();
    this.#connection = connection;
    if (this.#isClosed) return connection.destroy();
    // Any other level would keep a snapshot for as long as the statement waits, and the server could not
    // purge old rows meanwhile.
    await connection.run("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED", []);
    await connection.run("SELECT GET_LOCK(?, 0) AS got", [lockNameOf(this.#token)]);
    const blockingLock = `${lockNameOf(this.#token)}:block`;
    await this.#deps.block(blockingLock);
    if (this.#isClosed) return connection.destroy();
    this.#phase = "listening";
    ready();
    let wasUnblocked = false;
    while (!this.#isClosed && connection.alive) {
      const waiting = this.#wait(connection, blockingLock);
      // What came before anybody could wake it, or between two waits.
      if (this.#deps.waitStatement === undefined) void this.#deps.onWake(connection);
      const outcome = await waiting;
      if (this.#isClosed) return;
      if (outcome === "unblocked") {
        // The session that held it has ended. If another one cannot hold it, the two are on different
        // servers.
        if (wasUnblocked) throw new Error("no session holds the blocking lock");
        await connection.run("DO RELEASE_LOCK(?)", [blockingLock]);
        await this.#deps.block(blockingLock);
      }
      wasUnblocked = outcome === "unblocked";
      if (this.#deps.waitStatement !== undefined || outcome === "woken") await this.#deliver(connection);
    }
  }

  /** The next wake-up may meet the session while it reads, and ends that statement. */
  async #deliver(connection: SqlConnection): Promise<void> {
    for (let isRead = false; !isRead;) {
      isRead = true;
      try {
        await this.#deps.onWake(connection);
      } catch (error) {
        if (!connection.alive || codeOf(error) !== INTERRUPTED) throw error;
        isRead = false;
      }
    }
  }

  /** One wait: it was ended by somebody, it was over or there was no need for it, or nobody had the lock. */
  async #wait(connection: SqlConnection, lock: string): Promise<"woken" | "over" | "unblocked"> {
    const [statement, values] = this.#deps.waitStatement?.() ?? [PLAIN_WAIT, []];
    try {
      const { rows } = await connection.run(statement, [lock, ...values]);
      const got = rows[0]?.["got"] ?? null;
      // To a wait that was ended a server may answer with an error or with NULL.
      if (got === null) return "woken";
      return Number(got) === 1 ? "unblocked" : "over";
    } catch (error) {
      if (!connection.alive) throw error;
      return "woken";
    }
  }

  get #isClosed(): boolean {
    return this.#phase === "closed";
  }
}

/**
 * What `block` runs. It does not matter whether it gets it or another session of the store has it already.
 */
export const BLOCK = "SELECT GET_LOCK(?, 0) AS got";

/** Wakes an opened store, if it can be found. */
export async function wake(runner: StatementRunner, token: string, call: StatementCall): Promise<void> {
  const id = await sessionOf(runner, token, call);
  if (id !== null) await runner.run(`KILL QUERY ${id}`, [], call).catch(() => {});
}

/** Ends the session at the server, which does not see at once that the client of a wait has gone. */
export async function terminate(runner: StatementRunner, token: string, call: StatementCall): Promise<void> {
  const id = await sessionOf(runner, token, call);
  if (id !== null) await runner.run(`KILL ${id}`, [], call);
}

/** The number of the session that has this token, or null when it has ended. */
export async function sessionOf(
  runner: StatementRunner,
  token: string,
  call: StatementCall,
): Promise<number | null> {
  const { rows } = await runner.run("SELECT IS_USED_LOCK(?) AS id", [lockNameOf(token)], call);
  const id = rows[0]?.["id"];
  return id === null || id === undefined ? null : Number(id);
}

/** The named lock of a session. Procedures and statements look for it by the same words. */
export function lockNameOf(token: string): string {
  return `holdfast:${token}`;
}
