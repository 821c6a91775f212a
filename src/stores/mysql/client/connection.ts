// One connection that is replaced when it has ended, for statements that stand alone. Whoever gives up on a
// statement ends the connection with it: what was queued behind must not run when nobody waits for it any
// more.

import { setMaxListeners } from "node:events";
import type { Io } from "../../../core/store.ts";
import { type CallContext, retryWhileUnsent } from "../../shared/retry-while-unsent.ts";
import { isPassing, mysqlError } from "../errors.ts";
import type { Answer, SqlConnection, Value } from "./port.ts";

/** How often a statement that met a deadlock or a lock-wait timeout is sent again within one call. */
const LOOKS = 5;

/** The part of a call's context that a statement needs. */
export type StatementCall = Pick<Io, "signal" | "sleep"> & CallContext;

export class ReconnectingConnection {
  readonly #connect: () => Promise<SqlConnection>;
  readonly #nowMs: () => number;
  #connection: Promise<SqlConnection> | null = null;
  #closed = false;

  /** `connect` makes a connection that is ready for use; `first` is one that is there already. */
  constructor(connect: () => Promise<SqlConnection>, nowMs: () => number, first?: SqlConnection) {
    this.#connect = connect;
    this.#nowMs = nowMs;
    if (first !== undefined) this.#connection = Promise.resolve(first);
  }

  /** One statement that is a transaction of its own. */
  async run(sql: string, values: readonly Value[], io: StatementCall): Promise<Answer> {
    for (let look = 1; ; look += 1) {
      try {
        return await this.#once((connection) => connection.run(sql, values), io);
      } catch (error) {
        if (!isPassing(error) || look === LOOKS || io.signal.aborted) throw error;
        await io.sleep(look);
      }
    }
  }

  /** `last` is tried once more before the end, and `then` follows, without anybody waiting for it. */
  close(last: (connection: ReconnectingConnection) => Promise<void>, then: () => void): void {
    const end = (): void => {
      this.#closed = true;
      this.#drop();
      then();
    };
    last(this).then(end, end);
  }

  readonly #rule = {
    isUnsent: (error: unknown): boolean => !this.#closed && mysqlError(error, "be reached").retryable,
  };

  async #once<T>(work: (connection: SqlConnection) => Promise<T>, io: StatementCall): Promise<T> {
    const giveUp = (): void => this.#drop();
    setMaxListeners(0, io.signal);
    io.signal.addEventListener("abort", giveUp);
    try {
      return await work(await retryWhileUnsent(io, this.#nowMs, () => this.#ready(), this.#rule));
    } finally {
      io.signal.removeEventListener("abort", giveUp);
    }
  }

  async #ready(): Promise<SqlConnection> {
    if (this.#closed) throw new Error("the connection is closed");
    const connecting = (this.#connection ??= this.#connect());
    try {
      const connection = await connecting;
      if (connection.alive) return connection;
    } catch (error) {
      if (this.#connection === connecting) this.#connection = null;
      throw error;
    }
    if (this.#connection === connecting) this.#connection = null;
    return this.#ready();
  }

  #drop(): void {
    const connecting = this.#connection;
    this.#connection = null;
    connecting?.then(
      (connection) => connection.destroy(),
      () => {},
    );
  }
}
