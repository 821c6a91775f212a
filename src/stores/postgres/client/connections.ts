// The slice of `pg` that the store needs. A pool that was given is never changed and never closed;
// connections that are kept for long (listening, session locks) are opened beside it. Only connecting is
// retried, within the timeout of the call. No setting is left on a connection of the pool, so that the store
// works behind a transaction pooler; statements are prepared only where no pooler stands between
// (prepared.ts).

import { StoreUnavailableError } from "../../../core/errors.ts";
import { PoolHealth } from "../../shared/pool-health.ts";
import { type CallContext, retryWhileUnsent } from "../../shared/retry-while-unsent.ts";
import { isPermanent, isServerError } from "../errors.ts";
import { CancelRequests } from "./cancel-requests.ts";
import { Prepared } from "./prepared.ts";

export type Row = Readonly<Record<string, string | null>>;

/** What is used of a connection. */
export interface PgClient {
  query(query: {
    readonly name?: string;
    readonly text: string;
    readonly values?: readonly unknown[];
  }): Promise<{ readonly rows: Row[] }>;
  query(
    query: { readonly name?: string; readonly text: string; readonly values?: readonly unknown[] },
    settle: (error: Error | null | undefined, result: { readonly rows: Row[] }) => void,
  ): void;
  on(event: string, listener: (...args: never[]) => void): unknown;
  off(event: string, listener: (...args: never[]) => void): unknown;
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
/** undefined_table, undefined_function */
const MISSING = ["42P01", "42883"];

/** For a call that nobody gives up. A signal each: one for all would collect the listeners of all calls. */
export function newCall(): CallContext {
  return { signal: new AbortController().signal };
}

/** A statement without a signal, on its way. Its connection is given up once it is overdue. */
interface DirectCall {
  readonly overdueAtMs: number;
  giveUp(): void;
}

type Settle = (error: unknown, rows: readonly Row[] | null) => void;

/** A statement that decides everything, and a plain one that is enough in the simplest case. */
export interface DirectStatement {
  readonly text: string;
  readonly values: readonly unknown[];
  /** Takes the first so many of the values, and gives no row where the case is not that simple. */
  readonly plain: { readonly text: string; readonly values: number } | null;
}

/**
 * Not at once: the pool passes a client that is released to the next caller in its queue, who may have given
 * up too, and so on. Thousands of them are deeper than the stack.
 */
function giveBack(client: PooledClient, broken: boolean): void {
  queueMicrotask(() => client.release(broken));
}

export class Connections {
  readonly #pool: PgPool;
  readonly #own: boolean;
  readonly #nowMs: () => number;
  readonly #prepared = new Prepared();
  readonly #cancels = new CancelRequests();
  readonly #health: PoolHealth;
  readonly #direct = new Set<DirectCall>();
  /** Connections beside the pool are replaced with those of the pool. */
  onSilence: (() => void) | null = null;
  /** Creates the tables that a statement missed. */
  #create: (() => Promise<void>) | null = null;
  #creating: Promise<void> | null = null;
  #ending: Promise<void> | null = null;

  constructor(pool: PgPool, own: boolean, nowMs: () => number) {
    this.#pool = pool;
    this.#own = own;
    this.#nowMs = nowMs;
    this.#health = new PoolHealth(nowMs);
    // An idle connection that breaks is replaced by the pool; somebody has to be told nevertheless.
    if (own) pool.on("error", QUIET);
  }

  /**
   * From now on tables that are gone, as after a restore, are created again: by the first call that misses
   * them.
   */
  onMissingTable(create: () => Promise<void>): void {
    this.#create = create;
  }

  /** From now on sessions of our own pool run this before anything else. Not behind a pooler. */
  setUpSessions(text: string): void {
    if (this.#own) this.#prepared.ownSession = text;
  }

  /**
   * One statement. It is sent a second time only where its tables were gone, so that it cannot have done
   * anything.
   */
  async query(text: string, values: readonly unknown[], call: CallContext): Promise<readonly Row[]> {
    try {
      return await this.#query(text, values, call);
    } catch (error) {
      if (!(await this.recreate(error))) throw error;
      return this.#query(text, values, call);
    }
  }

  /**
   * The same without a promise, a signal or a timer, for the uncontended path: core keeps the deadline.
   * Whatever is not simple takes the way of `query`. `missed`: the plain statement gave no row.
   */
  queryDirect(
    { text, values, plain }: DirectStatement,
    call: CallContext & { readonly timeoutMs: number; readonly missed: () => void },
    settle: Settle,
  ): void {
    this.#giveUpOverdue();
    const retry = (): void =>
      void this.query(text, values, call).then(
        (rows) => settle(null, rows),
        (error: unknown) => settle(error, null),
      );
    this.#pool.connect((_error, client) => {
      if (client === undefined) return retry();
      const quick = this.#prepared.isOwn(client) ? plain : null;
      const name = this.#prepared.nameOf(client, quick?.text ?? text);
      if (!this.#health.isUsable(client) || name === undefined) {
        giveBack(client, !this.#health.isUsable(client));
        return retry();
      }
      try {
        call.sent?.();
      } catch (error) {
        giveBack(client, false);
        return settle(error, null);
      }
      client.on("error", QUIET);
      const sentAtMs = this.#nowMs();
      const end = (broken: boolean): void => {
        client.off("error", QUIET);
        client.release(broken);
        this.#direct.delete(direct);
      };
      const direct: DirectCall = {
        overdueAtMs: sentAtMs + call.timeoutMs,
        giveUp: () => {
          if (this.#health.givenUp(sentAtMs)) this.onSilence?.();
          this.#cancels.send(client);
          end(true);
        },
      };
      this.#direct.add(direct);
      const sent =
        quick === null ? { text, values } : { text: quick.text, values: values.slice(0, quick.values) };
      client.query(name === null ? sent : { name, ...sent }, (error, result) => {
        const isAnswer = error === null || error === undefined || isServerError(error);
        if (this.#direct.has(direct)) end(!isAnswer);
        if (isAnswer) this.#health.answered(client);
        if (error === null || error === undefined) {
          if (quick === null || result.rows.length > 0) return settle(null, result.rows);
          call.missed();
          return retry();
        }
        if (this.#prepared.isPlanGone(client, error)) return retry();
        this.recreate(error).then(
          (isThere) => (isThere ? retry() : settle(error, null)),
          () => settle(error, null),
        );
      });
    });
  }

  /** Whether this error was of tables that are gone, and they are there again. */
  async recreate(error: unknown): Promise<boolean> {
    if (this.#create === null || !isServerError(error) || !MISSING.includes(error.code)) return false;
    this.#creating ??= this.#create().finally(() => (this.#creating = null));
    return this.#creating.then(
      () => true,
      () => false,
    );
  }

  /** A connection whose caller has given up is not used again, and its statement is cancelled. */
  async #query(text: string, values: readonly unknown[], call: CallContext): Promise<readonly Row[]> {
    this.#giveUpOverdue();
    const client = await this.#retry(call, () => this.#checkOutUsable(call.signal));
    try {
      if (call.signal.aborted) throw noConnection();
      call.sent?.();
    } catch (error) {
      client.off("error", QUIET);
      client.release();
      throw error;
    }
    const sentAtMs = this.#nowMs();
    let isOurs = true;
    const giveUp = (): void => {
      call.signal.removeEventListener("abort", giveUp);
      if (this.#health.givenUp(sentAtMs)) this.onSilence?.();
      this.#cancels.send(client);
      client.release(true);
      isOurs = false;
    };
    call.signal.addEventListener("abort", giveUp, { once: true });
    try {
      const { rows } = await this.#prepared.query(client, text, values);
      call.signal.removeEventListener("abort", giveUp);
      if (isOurs) client.release();
      this.#health.answered(client);
      return rows;
    } catch (error) {
      call.signal.removeEventListener("abort", giveUp);
      // An error of the server leaves the connection as it was; anything else does not.
      if (isOurs) client.release(!isServerError(error));
      if (isServerError(error)) this.#health.answered(client);
      throw error;
    } finally {
      client.off("error", QUIET);
    }
  }

  /** A connection of our own, beside the pool. It keeps no process alive. */
  connect(settings: object = {}, call: CallContext = newCall()): Promise<OwnClient> {
    return this.#retry(call, () => this.#connect(settings));
  }

  close(): Promise<void> {
    for (const call of [...this.#direct]) call.giveUp();
    if (!this.#own) return Promise.resolve();
    this.#ending ??= this.#pool.end();
    return this.#ending;
  }

  /**
   * Core has stopped waiting for these, and asks for something else: their connections must not stay away.
   */
  #giveUpOverdue(): void {
    if (this.#direct.size === 0) return;
    const nowMs = this.#nowMs();
    for (const call of this.#direct) if (call.overdueAtMs <= nowMs) call.giveUp();
  }

  /** For what comes before a statement: nothing has been sent, whatever the error. */
  #retry<T>(call: CallContext, connect: () => Promise<T>): Promise<T> {
    const isUnsent = (error: unknown): boolean => this.#ending === null && !isPermanent(error);
    return retryWhileUnsent(call, this.#nowMs, connect, { isUnsent });
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
      // By callback: the server's farewell may stand in the same piece as its welcome, and is told before any
      // promise is.
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
