// mysql2 behind the port. Statements with values are prepared by the server, so that no value is ever part of
// a statement's text, whatever the server's sql_mode makes of a backslash.

import { UnsupportedError } from "../../../core/errors.ts";
import { isMissing } from "../../shared/missing-client.ts";
import type { Address, Answer, MysqlPort, Row, Settle, SqlConnection, Value } from "./port.ts";
import type { Login } from "../options.ts";
import { SESSION_SETTINGS } from "./session-settings.ts";

interface Header {
  readonly affectedRows: number;
  readonly insertId: number;
}

/** A CALL answers with its rows and a header. */
type Result = Header | readonly Row[] | readonly [readonly Row[], Header];

type Callback = (error: Error | null, result?: Result) => void;

/** What we use of a connection of mysql2. */
interface Mysql2Connection {
  query(sql: string, done: Callback): unknown;
  execute(sql: string, values: unknown[], done: Callback): unknown;
  ping(done: (error: Error | null) => void): void;
  destroy(): void;
  on(event: "error" | "end" | "connect", listener: (error?: Error) => void): unknown;
  readonly stream?: { destroy(): unknown; unref?(): unknown };
}

export interface Mysql2 {
  createConnection(options: object): Mysql2Connection;
}

/** mysql2 believes any host that has a certificate of the right authority, unless it is told not to. */
const CHECKED = { verifyIdentity: true };
const KEEP_ALIVE_MS = 10_000;
/** Core stops listening long before; this only ends what nobody waits for. */
const CONNECT_MS = 10_000;
/** Where there is another server to go to. */
const CONNECT_SEVERAL_MS = 1_000;

/** mysql2 sets aside 32 bytes for each of these, per connection; we have less than a hundred. */
const PREPARED_STATEMENTS = 256;

/** Loads the package, which people install beside this one. */
export async function loadMysql2(): Promise<Mysql2> {
  const module: unknown = await import(/* webpackIgnore: true */ "mysql2").catch((error: unknown) => {
    if (!isMissing(error)) throw error;
    throw new UnsupportedError("the mysql store needs a client: npm i mysql2", { cause: error });
  });
  return (module as { readonly default?: Mysql2 }).default ?? (module as Mysql2);
}

export class Mysql2Port implements MysqlPort {
  readonly hosts: readonly Address[];
  readonly #mysql2: Mysql2;
  readonly #login: Login;
  readonly #open = new Set<SqlConnection>();
  #isClosed = false;

  constructor(mysql2: Mysql2, login: Login) {
    this.#mysql2 = mysql2;
    this.#login = login;
    this.hosts = login.hosts;
  }

  /** How many connections are open or being opened. */
  get openConnections(): number {
    return this.#open.size;
  }

  async connect(host: Address): Promise<SqlConnection> {
    const connection = await this.#connect(host);
    try {
      for (const statement of SESSION_SETTINGS) await connection.run(statement);
      return connection;
    } catch (error) {
      connection.destroy();
      throw error;
    }
  }

  async #connect({ host, port, socketPath }: Address): Promise<SqlConnection> {
    const { user, password: given, database, ssl, poolOptions } = this.#login;
    const password = typeof given === "function" ? await given() : given;
    if (this.#isClosed) throw new Error("the store was closed");
    const connection = this.#mysql2.createConnection({
      ...poolOptions,
      ...(socketPath === undefined ? { host, port } : { socketPath }),
      ...{ user, password, database },
      ...(ssl === undefined ? {} : { ssl: { ...(poolOptions === undefined ? CHECKED : {}), ...ssl } }),
      ...{ charset: "utf8mb4", dateStrings: true, supportBigNumbers: true, bigNumberStrings: false },
      ...{ connectTimeout: this.hosts.length > 1 ? CONNECT_SEVERAL_MS : CONNECT_MS },
      ...{ enableKeepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS },
      ...{ maxPreparedStatements: PREPARED_STATEMENTS },
    });
    return new Promise((resolve, reject) => {
      const own = new OwnConnection(connection, () => this.#open.delete(own));
      this.#open.add(own);
      // Core keeps the process alive while a call is under way. A process with nothing else to do ends.
      own.unref();
      own.onEnd(reject);
      connection.on("connect", () => resolve(own));
    });
  }

  close(): void {
    this.#isClosed = true;
    for (const connection of this.#open) connection.destroy();
  }
}

class OwnConnection implements SqlConnection {
  readonly #connection: Mysql2Connection;
  readonly #listeners: ((error: Error) => void)[] = [];
  #ended: Error | null = null;
  #destroyed = false;
  readonly #onGone: () => void;

  /** `onGone`: it has ended, or was destroyed. */
  constructor(connection: Mysql2Connection, onGone: () => void) {
    this.#connection = connection;
    this.#onGone = onGone;
    connection.on("error", (error) => this.#end(error ?? new Error("the connection failed")));
    connection.on("end", () => this.#end(new Error("the server ended the connection")));
  }

  get alive(): boolean {
    return !this.#destroyed && this.#ended === null;
  }

  run(sql: string, values: readonly Value[] = []): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.send(sql, values, (error, answer) => {
        if (answer === null) reject(error);
        else resolve(answer);
      });
    });
  }

  send(sql: string, values: readonly Value[], settle: Settle): void {
    this.#ask<Result>(
      (done) => {
        if (values.length === 0) this.#connection.query(sql, done);
        else this.#connection.execute(sql, values as unknown[], done);
      },
      (error, result) => settle(error, error === null ? answerOf(result) : null),
    );
  }

  ping(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#ask<void>(
        (done) => this.#connection.ping(done),
        (error) => (error === null ? resolve() : reject(error)),
      );
    });
  }

  onEnd(listener: (error: Error) => void): void {
    if (this.#ended === null) this.#listeners.push(listener);
    else listener(this.#ended);
  }

  destroy(): void {
    if (this.#destroyed) return;
    this.#destroyed = true;
    // Whoever waits for an answer is told: mysql2 drops what is under way without a word.
    this.#end(new Error("the connection was given up"));
    this.#connection.destroy();
    // mysql2 only says goodbye, and a server that is asleep or waits for a row does not hear it.
    this.#connection.stream?.destroy();
  }

  unref(): void {
    this.#connection.stream?.unref?.();
  }

  /** Settles with the answer or with the end of the connection, whichever is first. */
  #ask<T>(
    send: (done: (error: Error | null, result?: T) => void) => void,
    settle: (error: Error | null, result?: T) => void,
  ): void {
    if (this.#ended !== null) return settle(this.#ended);
    const fail = (error: Error): void => settle(error);
    this.#waiting.add(fail);
    send((error, result) => {
      if (!this.#waiting.delete(fail)) return;
      // mysql2 tells of a connection's end to whoever waits for an answer, and then to nobody else.
      if ((error as { fatal?: unknown } | null)?.fatal === true) this.#end(error as Error);
      settle(error ?? null, result);
    });
  }

  readonly #waiting = new Set<(error: Error) => void>();

  #end(error: Error): void {
    if (this.#ended !== null) return;
    this.#ended = error;
    this.#onGone();
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const fail of waiting) fail(error);
    if (!this.#destroyed) for (const listener of this.#listeners) listener(error);
    this.#listeners.length = 0;
  }
}

function answerOf(result: Result | undefined): Answer {
  if (!Array.isArray(result)) {
    const header = result as Header | undefined;
    return { rows: [], met: header?.affectedRows ?? 0, insertId: Number(header?.insertId ?? 0) };
  }
  const rows = (Array.isArray(result[0]) ? result[0] : result) as readonly Row[];
  return { rows, met: rows.length, insertId: 0 };
}
