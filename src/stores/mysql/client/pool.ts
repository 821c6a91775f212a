// A few connections to the present primary. An error that another server might not have makes the pool look
// for the primary again; until the pool has a connection, a call retries within its own timeout. A statement
// whose caller has given up is left to end by itself, and its connection is used again then: a server that is
// merely slow must not have to make new connections as well.

import { setMaxListeners } from "node:events";
import type { System } from "../../../core/system.ts";
import { PoolHealth } from "../../shared/pool-health.ts";
import { type CallContext, retryWhileUnsent } from "../../shared/retry-while-unsent.ts";
import { codeOf, INCOMPLETE_SCHEMA, LEAVING, mysqlError, READ_ONLY } from "../errors.ts";
import type { Answer, Settle, SqlConnection, Value } from "./port.ts";
import type { Primary, PrimaryFinder } from "./primary-finder.ts";

/** A process asks for a few things at a time; more would only queue up in the server. */
const MOST = 6;
/** A connection whose answer is late by so much is given up when another call needs one. */
const LATE_MS = 2_000;
/**
 * So long nobody must have had an answer before another server is looked for. A call may be given as little
 * as 50 ms: a server that is slower than that would be left again and again, and each time be asked for new
 * connections as well.
 */
const SILENT_MS = 1_000;

/** A statement that was sent without a signal. */
interface Sent {
  readonly atMs: number;
  readonly timeoutMs: number;
}

export class Pool {
  readonly #finder: PrimaryFinder;
  readonly #system: System;
  #finding: Promise<Primary> | null = null;
  #primary: Primary | null = null;
  #idle: SqlConnection[] = [];
  #open = 0;
  #queue: (() => void)[] = [];
  #closed = false;
  /** A table or a procedure was gone: all are made again with the next search. */
  #incomplete = false;
  /** Connections of an earlier round are not used again. */
  #round = 0;
  readonly #rounds = new WeakMap<SqlConnection, number>();
  /** Since when nobody waits for their answer any more. */
  readonly #late = new Map<SqlConnection, number>();
  readonly #sent = new Map<SqlConnection, Sent>();
  /** When the primary was last heard. */
  #heardMs = 0;
  readonly #health: PoolHealth;
  /** Connections outside of the pool are replaced with those of the pool. */
  onSilence: (() => void) | null = null;

  constructor(finder: PrimaryFinder, system: System) {
    this.#finder = finder;
    this.#system = system;
    this.#health = new PoolHealth(() => system.monoMs());
  }

  /** Retries within the timeout of the call. */
  primary(call: CallContext): Promise<Primary> {
    return this.#retry(call, () => this.#find());
  }

  /** One statement that is a transaction of its own. */
  run(sql: string, values: readonly Value[], call: CallContext): Promise<Answer> {
    return this.use((connection) => connection.run(sql, values), call);
  }

  /**
   * One statement on a connection that rests in the pool, without a promise, a signal or a timer. False:
   * there is no such connection, or the server has to be asked whether it is the primary.
   */
  send(sql: string, values: readonly Value[], timeoutMs: number, settle: Settle): boolean {
    if (this.#primary === null || this.#primary.isGuarded || this.#closed) return false;
    if (this.#sent.size > 0) this.#noticeLate();
    const connection = this.#idle.pop();
    if (connection === undefined) return false;
    if (!connection.alive) {
      this.#open -= 1;
      return this.send(sql, values, timeoutMs, settle);
    }
    this.#sent.set(connection, { atMs: this.#system.monoMs(), timeoutMs });
    connection.send(sql, values, (error, answer) => {
      if (error === null) this.#heard(connection);
      else this.#failed(connection, error);
      this.#sent.delete(connection);
      this.#late.delete(connection);
      this.#give(connection);
      settle(error, answer);
    });
    return true;
  }

  /**
   * Several statements on one connection. It must leave no transaction open; if it cannot know, it ends the
   * connection.
   */
  async use<T>(work: (connection: SqlConnection) => Promise<T>, call: CallContext): Promise<T> {
    // A renewal of many leases is many statements under one signal.
    setMaxListeners(0, call.signal);
    this.#noticeLate();
    const connection = await this.#retry(call, () => this.#take(call));
    try {
      if (call.signal.aborted) throw new Error("nobody waits for it any more");
      call.sent?.();
    } catch (error) {
      this.#give(connection);
      throw error;
    }
    const sentAtMs = this.#system.monoMs();
    const late = (): void => this.#isLate(connection, sentAtMs);
    call.signal.addEventListener("abort", late);
    try {
      const answer = await work(connection);
      this.#heard(connection);
      return answer;
    } catch (error) {
      this.#failed(connection, error);
      throw error;
    } finally {
      call.signal.removeEventListener("abort", late);
      this.#late.delete(connection);
      this.#give(connection);
    }
  }

  /** A connection outside of the pool, which its caller ends. */
  async connect(): Promise<SqlConnection> {
    return this.#finder.connect(await this.#find());
  }

  /** The primary is looked for again at the next call. */
  forget(): void {
    this.#finding = null;
    this.#primary = null;
    this.#round += 1;
    const idle = this.#idle;
    this.#idle = [];
    this.#open -= idle.length;
    for (const connection of [...idle, ...this.#late.keys()]) connection.destroy();
  }

  /** Nobody waits for anything any more. */
  close(): void {
    this.#closed = true;
    this.forget();
    this.#finder.close();
  }

  #find(): Promise<Primary> {
    if (this.#closed) return Promise.reject(new Error("the pool is closed"));
    if (this.#finding !== null) return this.#finding;
    const round = this.#round;
    const finding = this.#finder.find(this.#incomplete).then(({ primary, connection }) => {
      this.#incomplete = false;
      this.#rounds.set(connection, round);
      this.#open += 1;
      this.#heardMs = this.#system.monoMs();
      if (this.#round === round) this.#primary = primary;
      this.#give(connection);
      return primary;
    });
    this.#finding = finding;
    finding.catch(() => {
      if (this.#finding === finding) this.#finding = null;
    });
    return finding;
  }

  /** For what comes before a statement: nothing has been sent, whatever the error. */
  #retry<T>(call: CallContext, connect: () => Promise<T>): Promise<T> {
    const isUnsent = (error: unknown): boolean => !this.#closed && mysqlError(error, "be reached").retryable;
    return retryWhileUnsent(call, () => this.#system.monoMs(), connect, { isUnsent });
  }

  async #take(call: CallContext): Promise<SqlConnection> {
    await this.#find();
    for (;;) {
      if (this.#closed) throw new Error("the pool is closed");
      const connection = this.#idle.pop();
      if (connection?.alive === true) return connection;
      if (connection !== undefined) {
        this.#open -= 1;
        continue;
      }
      if (this.#open < MOST) return this.#connect();
      this.#giveUpLate();
      await this.#wait(call.signal);
      if (call.signal.aborted) throw new Error("no connection was free in time");
    }
  }

  /** Until a connection may be free, or the caller gives up, who then leaves the queue. */
  async #wait(signal: AbortSignal): Promise<void> {
    let wake = (): void => {};
    const woken = new Promise<void>((resolve) => (wake = resolve));
    this.#queue.push(wake);
    signal.addEventListener("abort", wake);
    await woken;
    signal.removeEventListener("abort", wake);
    if (!signal.aborted) return;
    const at = this.#queue.indexOf(wake);
    if (at !== -1) this.#queue.splice(at, 1);
    // A connection was free for this caller: it is for the next one.
    else this.#queue.shift()?.();
  }

  /** Statements without a signal whose callers have stopped waiting. */
  #noticeLate(): void {
    const nowMs = this.#system.monoMs();
    for (const [connection, { atMs, timeoutMs }] of this.#sent) {
      if (nowMs - atMs < timeoutMs) continue;
      this.#sent.delete(connection);
      this.#isLate(connection, atMs);
    }
  }

  /** The caller of a statement has given up. */
  #isLate(connection: SqlConnection, sentAtMs: number): void {
    const nowMs = this.#system.monoMs();
    this.#late.set(connection, nowMs);
    if (!this.#isPresent(connection)) return;
    const isSilent = this.#health.givenUp(sentAtMs);
    if (isSilent) this.onSilence?.();
    // Not one answer to anybody: perhaps another server has some, or a new connection.
    if (isSilent || (this.#finder.several && nowMs - this.#heardMs >= SILENT_MS)) this.forget();
  }

  #failed(connection: SqlConnection, error: unknown): void {
    if (connection.alive) this.#heard(connection);
    const code = codeOf(error);
    const isIncomplete = INCOMPLETE_SCHEMA.includes(code);
    if (isIncomplete) this.#incomplete = true;
    const left = isIncomplete || READ_ONLY.includes(code) || LEAVING.includes(code);
    // What becomes of connections that were given up says nothing about the server that is asked now.
    if (this.#isPresent(connection) && (left || (!connection.alive && this.#finder.several))) this.forget();
  }

  /** Its place is free as soon as the statement has been told that its connection is gone. */
  #giveUpLate(): void {
    const beforeMs = this.#system.monoMs() - LATE_MS;
    for (const [connection, sinceMs] of this.#late) {
      if (sinceMs >= beforeMs) continue;
      this.#rounds.delete(connection);
      connection.destroy();
    }
  }

  async #connect(): Promise<SqlConnection> {
    this.#open += 1;
    const round = this.#round;
    try {
      const connection = await this.connect();
      this.#rounds.set(connection, round);
      this.#heardMs = this.#system.monoMs();
      return connection;
    } catch (error) {
      this.#open -= 1;
      if (this.#round === round) this.forget();
      this.#queue.shift()?.();
      throw error;
    }
  }

  #heard(connection: SqlConnection): void {
    this.#heardMs = this.#system.monoMs();
    this.#health.answered(connection);
  }

  /** Of the server that is asked now, and not given up. */
  #isPresent(connection: SqlConnection): boolean {
    return this.#rounds.get(connection) === this.#round;
  }

  #give(connection: SqlConnection): void {
    if (connection.alive && this.#isPresent(connection) && !this.#closed) this.#idle.push(connection);
    else {
      connection.destroy();
      this.#open -= 1;
    }
    this.#queue.shift()?.();
  }
}
