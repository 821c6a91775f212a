// The slice of `pg` that the store needs. A pool that was given is never changed and never closed;
// connections that are kept for long (listening, session locks) are opened beside it. Only connecting is
// retried, within the timeout of the call. No setting is left on a connection of the pool, so that the store
// works behind a transaction pooler; statements are prepared only where no pooler stands between
// (prepared.ts).

import { StoreUnavailableError } from "../../core/errors.ts";
import { PoolHealth } from "../shared/pool-health.ts";
import { retryWhileUnsent } from "../shared/retry-while-unsent.ts";
import type { Patience } from "../shared/table.ts";
import { CancelRequests } from "./cancel.ts";
import { isPermanent, isServerError } from "./errors.ts";
import { Prepared } from "./prepared.ts";

export type Row = Readonly<Record<string, string | null>>;

/** What is used of a connection. */
export interface PgClient {
  query(query: {
    readonly name?: string;
    readonly text: string;
    readonly values?: readonly unknown[];
  }): Promise<{ readonly rows: Row[] }>;
  on(event: string, listener: (...args: readonly never[]) => void): unknown;
  off(event: string, listener: (...args: readonly never[]) => void): unknown;
  readonly processID?: number | null;
  /** With `processID` it identifies the session in a cancel request. */
  readonly secretKey?: unknown;
  readonly host?: unknown;
  readonly port?: unknown;
}

export interface PooledClient extends PgClient {
  release(broken?: boolean): void;
}

export interface OwnClient extends PgClient {
  connect(): Promise<unknown>;
  end(): Promise<void>;
  unref(): void;
  readonly connection: { readonly stream: { destroy(): void } };
}

/** What is used of a pool of `pg`. */
export interface PgPool {
  readonly options: object;
  readonly Client: new (options: object) => OwnClient;
  connect(given: (error: Error | undefined, client: PooledClient | undefined) => void): void;
  end(): Promise<void>;
  on(event: "error", listener: (error: Error) => void): unknown;
}

const QUIET = (): void => {};
const CONNECT_MS = 2_000;
const NO_TABLE = "42P01";

/** For what nobody gives up. A signal each: one for all would collect the listeners of everything that is under way. */
export function forEver(): Patience {
  return { signal: new AbortController().signal };
}

export function isPool(pool: unknown): pool is PgPool {
  if (typeof pool !== "object" || pool === null) return false;
  const { options, Client, connect, end } = pool as Partial<PgPool>;
  const shape = typeof options === "object" && typeof Client === "function";
  return shape && typeof connect === "function" && typeof end === "function";
}

export class PgPort {
  readonly #pool: PgPool;
  readonly #own: boolean;
  readonly #nowMs: () => number;
  readonly #prepared = new Prepared();
  readonly #cancels = new CancelRequests();
  readonly #health: PoolHealth;
  /** Connections beside the pool are replaced with those of the pool. */
  onSilence: (() => void) | null = null;
  /** Makes the tables that a statement missed. */
  #make: (() => Promise<void>) | null = null;
  #making: Promise<void> | null = null;
  #ending: Promise<void> | null = null;

  constructor(pool: PgPool, own: boolean, nowMs: () => number) {
    this.#pool = pool;
    this.#own = own;
    this.#nowMs = nowMs;
    this.#health = new PoolHealth(nowMs);
    // An idle connection that breaks is replaced by the pool; somebody has to be told nevertheless.
    if (own) pool.on("error", QUIET);
  }

  /** From now on tables that are gone, as after a restore, are made again: by whoever misses them first, and once for all. */
  remakeBy(make: () => Promise<void>): void {
    this.#make = make;
  }

  /** One statement. It is sent a second time only where its tables were gone, so that it cannot have done anything. */
  async query(text: string, values: readonly unknown[], patience: Patience): Promise<readonly Row[]> {
    try {
      return await this.#query(text, values, patience);
    } catch (error) {
      if (!(await this.remade(error))) throw error;
      return this.#query(text, values, patience);
    }
  }

  /** Whether this error was of tables that are gone, and they are there again. Who may not make them is told that they are missing. */
  async remade(error: unknown): Promise<boolean> {
    if (this.#make === null || !isServerError(error) || error.code !== NO_TABLE) return false;
    this.#making ??= this.#make().finally(() => (this.#making = null));
    return this.#making.then(
      () => true,
      () => false,
    );
  }

  /** A connection whose caller has given up is not used again, and its statement is cancelled. */
  async #query(text: string, values: readonly unknown[], patience: Patience): Promise<readonly Row[]> {
    const client = await this.#retry(patience, () => this.#checkOutUsable(patience.signal));
    try {
      if (patience.signal.aborted) throw noConnection();
      patience.sent?.();
    } catch (error) {
      client.off("error", QUIET);
      client.release();
      throw error;
    }
    const sentAtMs = this.#nowMs();
    let broken = true;
    const giveUp = (): void => {
      patience.signal.removeEventListener("abort", giveUp);
      if (this.#health.givenUp(sentAtMs)) this.onSilence?.();
      this.#cancels.send(client);
      client.release(true);
      broken = false;
    };
    patience.signal.addEventListener("abort", giveUp, { once: true });
    try {
      const { rows } = await this.#prepared.query(client, text, values);
      patience.signal.removeEventListener("abort", giveUp);
      if (broken) client.release();
      this.#health.answered(client);
      return rows;
    } catch (error) {
      patience.signal.removeEventListener("abort", giveUp);
      // An error of the server leaves the connection as it was; anything else does not.
      if (broken) client.release(!isServerError(error));
      if (isServerError(error)) this.#health.answered(client);
      throw error;
    } finally {
      client.off("error", QUIET);
    }
  }

  /** A connection of our own, beside the pool. It keeps no process alive. */
  connect(settings: object = {}, patience: Patience = forEver()): Promise<OwnClient> {
    return this.#retry(patience, () => this.#connect(settings));
  }

  close(): Promise<void> {
    if (!this.#own) return Promise.resolve();
    this.#ending ??= this.#pool.end();
    return this.#ending;
  }

  /** For what comes before a statement: nothing has been sent, whatever the error. */
  #retry<T>(patience: Patience, connect: () => Promise<T>): Promise<T> {
    const isUnsent = (error: unknown): boolean => this.#ending === null && !isPermanent(error);
    return retryWhileUnsent(patience, this.#nowMs, connect, { isUnsent });
  }

  async #connect(settings: object): Promise<OwnClient> {
    const options = {
      connectionTimeoutMillis: CONNECT_MS,
      keepAlive: true,
      ...this.#pool.options,
      ...settings,
    };
    const client = new this.#pool.Client(withPassword(options, this.#pool.options));
    client.on("error", QUIET);
    try {
      await client.connect();
      client.unref();
      return client;
    } catch (error) {
      client.connection.stream.destroy();
      throw error;
    }
  }

  /** Not one of those that were there when the pool fell silent. */
  async #checkOutUsable(signal: AbortSignal): Promise<PooledClient> {
    for (;;) {
      const client = await this.#checkOut(signal);
      if (this.#health.isUsable(client)) return client;
      client.off("error", QUIET);
      client.release(true);
    }
  }

  #checkOut(signal: AbortSignal): Promise<PooledClient> {
    if (signal.aborted) return Promise.reject(noConnection());
    return new Promise((resolve, reject) => {
      const giveUp = (): void => reject(noConnection());
      signal.addEventListener("abort", giveUp, { once: true });
      // By callback: the server's farewell may stand in the same piece as its welcome, and is told before any promise is.
      this.#pool.connect((error, client) => {
        signal.removeEventListener("abort", giveUp);
        if (client === undefined) return reject(error ?? noConnection());
        if (signal.aborted) return client.release();
        // A connection that breaks says so to its query as well.
        client.on("error", QUIET);
        resolve(client);
      });
    });
  }
}

/** Closes a connection at once, whatever it is doing. */
export function destroy(client: OwnClient): void {
  client.connection.stream.destroy();
}

/** pg hides the password of a pool from those who copy its options. */
function withPassword(options: object, from: object): object {
  const password: unknown = (from as { password?: unknown }).password;
  return password === undefined ? options : { ...options, password };
}

function noConnection(): StoreUnavailableError {
  return new StoreUnavailableError("no connection to PostgreSQL was free in time");
}
