// One connection of row mode: a session that can hold one row. It has a token, a named lock that lives
// exactly as long as the session, by which others can see that it lives and find it to be ended.

import { codeOf, LOCKED } from "../errors.ts";
import type { Dialect, SqlConnection } from "../client/port.ts";
import { lockNameOf } from "../wakeup-session.ts";

/** No wait for a row ends by itself: core decides when to stop. */
const LONGEST_WAIT_S = 100_000_000;
/**
 * A session that was idle for longer than this share of its own limit is not used again: it may be ending.
 */
const FRESH_SHARE = 0.4;

export class RowSession {
  readonly token: string;
  readonly #connection: SqlConnection;
  readonly #dialect: Dialect;
  #waitSeconds: number;
  #usedMs: number;
  /** Hears of an end that was not asked for, while it holds a row. */
  onLost: (() => void) | null = null;
  /** Called once, when its connection has ended for whatever reason. */
  onDestroyed: (() => void) | null = null;

  private constructor(
    connection: SqlConnection,
    token: string,
    dialect: Dialect,
    waitSeconds: number,
    nowMs: number,
  ) {
    this.#connection = connection;
    this.token = token;
    this.#dialect = dialect;
    this.#waitSeconds = waitSeconds;
    this.#usedMs = nowMs;
    connection.onEnd(() => {
      this.#destroyed();
      this.onLost?.();
    });
  }

  /** Makes a session of a fresh connection. */
  static async begin(
    connection: SqlConnection,
    token: string,
    dialect: Dialect,
    waitSeconds: number,
    nowMs: number,
  ): Promise<RowSession> {
    await connection.run(
      `SET SESSION autocommit = 0, innodb_lock_wait_timeout = ${LONGEST_WAIT_S}, wait_timeout = ` +
        `${waitSeconds}`,
    );
    const { rows } = await connection.run("SELECT GET_LOCK(?, 0) AS got", [lockNameOf(token)]);
    if (Number(rows[0]?.["got"]) !== 1) throw new Error("the server gave no named lock to a new session");
    await connection.run("COMMIT");
    return new RowSession(connection, token, dialect, waitSeconds, nowMs);
  }

  get alive(): boolean {
    return this.#connection.alive;
  }

  fresh(nowMs: number): boolean {
    return this.alive && nowMs - this.#usedMs < this.#waitSeconds * 1_000 * FRESH_SHARE;
  }

  /**
   * Locks a row: true, or false when another has it and this call does not wait, or null when there is no
   * such row.
   */
  async lock(hash: Uint8Array, shared: boolean, wait: boolean): Promise<boolean | null> {
    const sharing = this.#dialect === "mariadb" ? "LOCK IN SHARE MODE" : "FOR SHARE";
    const clause = `${shared ? sharing : "FOR UPDATE"}${wait ? "" : " NOWAIT"}`;
    try {
      const { rows } = await this.#connection.run(`SELECT 1 FROM holdfast_row WHERE hash = ? ${clause}`, [
        hash,
      ]);
      return rows.length > 0 ? true : null;
    } catch (error) {
      if (!wait && LOCKED.includes(codeOf(error))) return false;
      throw error;
    }
  }

  /** Lets go of whatever it holds. */
  async end(how: "COMMIT" | "ROLLBACK", nowMs: number): Promise<void> {
    this.onLost = null;
    await this.#connection.run(how);
    this.#usedMs = nowMs;
  }

  /** Shows life to the server, which ends the session after so many seconds without any. */
  async keep(waitSeconds: number): Promise<void> {
    if (waitSeconds <= this.#waitSeconds) return this.#connection.ping();
    await this.limit(waitSeconds);
  }

  async limit(waitSeconds: number): Promise<void> {
    if (waitSeconds === this.#waitSeconds) return;
    await this.#connection.run(`SET SESSION wait_timeout = ${waitSeconds}`);
    this.#waitSeconds = waitSeconds;
  }

  destroy(): void {
    this.#connection.destroy();
    this.#destroyed();
  }

  #destroyed(): void {
    const told = this.onDestroyed;
    this.onDestroyed = null;
    told?.();
  }
}
