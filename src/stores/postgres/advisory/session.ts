// One connection that is a lock's own: the lock lives and dies with it. Whoever stops listening to a
// statement on it gives the connection up, because nobody could tell any more what it holds; what the server
// still has of it is ended by its number.

import { StoreUnavailableError } from "../../../core/errors.ts";
import type { System } from "../../../core/system.ts";
import type { CallContext } from "../../shared/retry-while-unsent.ts";
import { endsConnection } from "../errors.ts";
import { type Connections, destroy, type OwnClient, type Row } from "../client/connections.ts";
import { Prepared } from "../client/prepared.ts";
import type { Sql } from "../sql.ts";
import { StatementQueue } from "../client/statement-queue.ts";

/** Connections that are kept for the next lock. */
const MOST_IDLE = 4;
/** Of max_connections, for all session locks of one opened store. */
const LARGEST_SHARE = 0.5;
const NAME_LENGTH = 16;
const QUIET = (): void => {};

/**
 * Whatever the user or the database have as their default must not end a wait, loosen a commit or change what
 * a statement sees.
 */
const SETTINGS = [
  "SET statement_timeout = 0",
  "SET lock_timeout = 0",
  "SET default_transaction_isolation = 'read committed'",
  "SET synchronous_commit = on",
].join("; ");

export class Session {
  readonly #client: OwnClient;
  /** Unique, so that a number that was given again is not mistaken for it. */
  readonly name: string;
  readonly pid: number;
  /** Called once, when the connection is gone. */
  onEnd: (() => void) | null = null;
  /** Called when a statement was given up without an answer. */
  onSilence: (() => void) | null = null;
  #dead = false;
  readonly #prepared = new Prepared();
  readonly #statements = new StatementQueue();

  private constructor(client: OwnClient, name: string, pid: number) {
    this.#client = client;
    this.name = name;
    this.pid = pid;
    this.#prepared.learn(client, pid);
    client.on("error", () => this.#ended());
    client.on("end", () => this.#ended());
  }

  static async open(
    connections: Connections,
    name: string,
    listen: string,
    hear: (words: string) => void,
    call: CallContext,
  ): Promise<Session> {
    const client = await connections.connect({ application_name: name }, call);
    try {
      client.on("notification", ((notice: { readonly payload?: string }) => hear(notice.payload ?? "")) as (
        ...args: never[]
      ) => void);
      await client.query({ text: `${SETTINGS}; LISTEN "${listen}"` });
      // So that the server soon misses a client that died while it waited. Not every platform can.
      await client.query({ text: "SET client_connection_check_interval = 500" }).catch(QUIET);
      const { rows } = await client.query({ text: "SELECT pg_backend_pid()::text AS pid" });
      return new Session(client, name, Number(rows[0]?.["pid"]));
    } catch (error) {
      destroy(client);
      throw error;
    }
  }

  get dead(): boolean {
    return this.#dead;
  }

  /** The number that the server, or a pooler in its place, gave at the start. */
  get startedAs(): number | null {
    return this.#client.processID ?? null;
  }

  query(text: string, values: readonly unknown[], { signal }: CallContext): Promise<readonly Row[]> {
    if (this.#dead || signal.aborted)
      return Promise.reject(new StoreUnavailableError("the session of this lock has ended"));
    return new Promise((resolve, reject) => {
      const giveUp = (): void => {
        this.onSilence?.();
        this.kill();
        reject(new StoreUnavailableError("the session of this lock did not answer in time and was given up"));
      };
      signal.addEventListener("abort", giveUp, { once: true });
      this.#statements
        .run(() => this.#prepared.query(this.#client, text, values))
        .finally(() => signal.removeEventListener("abort", giveUp))
        .then(
          ({ rows }) => resolve(rows),
          (error: unknown) => {
            if (endsConnection(error)) this.kill();
            reject(error);
          },
        );
    });
  }

  kill(): void {
    destroy(this.#client);
    this.#ended();
  }

  #ended(): void {
    if (this.#dead) return;
    this.#dead = true;
    this.onEnd?.();
  }
}

export class Sessions {
  readonly #connections: Connections;
  readonly #sql: Sql;
  readonly #system: System;
  readonly #channel: string;
  readonly #hear: (words: string) => void;
  readonly #maxConnections: number;
  readonly #all = new Set<Session>();
  #opening = 0;
  #idle: Session[] = [];
  #closed = false;

  constructor(
    connections: Connections,
    sql: Sql,
    system: System,
    {
      channel,
      hear,
      maxConnections,
    }: {
      readonly channel: string;
      readonly hear: (words: string) => void;
      readonly maxConnections: number;
    },
  ) {
    this.#connections = connections;
    this.#sql = sql;
    this.#system = system;
    this.#channel = channel;
    this.#hear = hear;
    this.#maxConnections = maxConnections;
  }

  /** One that holds nothing: from those that are idle, or a new one. */
  async take(call: CallContext): Promise<Session> {
    for (let idle = this.#idle.pop(); idle !== undefined; idle = this.#idle.pop())
      if (!idle.dead) return idle;
    this.#refuseTooMany();
    const name = `holdfast ${this.#system.randomId().slice(0, NAME_LENGTH)}`;
    this.#opening += 1;
    const session = await Session.open(this.#connections, name, this.#channel, this.#hear, call).finally(
      () => (this.#opening -= 1),
    );
    session.onSilence = () => this.#dropIdle();
    if (this.#closed) session.kill();
    this.#all.add(session);
    return session;
  }

  /** A process that needs a connection per lock must not take all that the server has. */
  #refuseTooMany(): void {
    const most = Math.floor(this.#maxConnections * LARGEST_SHARE);
    if (this.#all.size + this.#opening < most) return;
    throw new StoreUnavailableError(
      `advisory mode needs a connection per lock that is held or waited for, and this process has ${most}, ` +
        `half of max_connections (${this.#maxConnections}): hold fewer locks at once, use mode "table", or ` +
        `raise max_connections`,
    );
  }

  /** It holds nothing any more. */
  giveBack(session: Session): void {
    session.onEnd = null;
    if (session.dead) this.#all.delete(session);
    else if (this.#idle.length < MOST_IDLE) this.#idle.push(session);
    else this.#drop(session);
  }

  /** Ends it here and at the server. Resolves when the server has nothing of it any more. */
  async end(session: Session, call: CallContext): Promise<void> {
    session.onEnd = null;
    this.#drop(session);
    await this.#connections.query(this.#sql.session_terminate, [session.pid, session.name], call);
  }

  close(): void {
    this.#closed = true;
    for (const session of this.#all) {
      session.onEnd = null;
      session.kill();
    }
    this.#all.clear();
  }

  /** One session did not answer: those that rest may be half open too, and a new one is quickly made. */
  #dropIdle(): void {
    for (const session of this.#idle.splice(0)) this.#drop(session);
  }

  #drop(session: Session): void {
    this.#all.delete(session);
    session.kill();
  }
}
