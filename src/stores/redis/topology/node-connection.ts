// The connection to one node, and the one policy for reconnecting:
//
// 1. The connection is made when it is first needed. All callers share one attempt (shared-run.ts).
// 2. Two calls in a row without any answer close it (shared/connection-health.ts), and so does READONLY: the
//    node is a replica by now. The calls that were under way fail; whether they were executed is not known.
// 3. After an end or a failed attempt, the next attempt starts at a random time within 100 ms, so that
//    clients that lost a server together do not return together. A caller that comes later does not wait.
// 4. A call that was certainly not executed is retried within its own timeout (shared/retry-while-unsent.ts).

import { LockError } from "../../../core/errors.ts";
import type { System } from "../../../core/system.ts";
import { ConnectionHealth, type HealthSystem } from "../../shared/connection-health.ts";
import type { CallContext, Reply, Sender } from "../client/port.ts";
import type { Connect, Connection } from "./connection.ts";
import { SharedRun } from "./shared-run.ts";

export type ConnectionSystem = HealthSystem & Pick<System, "after">;

/** What the store that opens a topology provides. */
export interface TopologyEnv {
  /** Throws if the node is not safe to lock on. */
  vet(node: Sender): Promise<void>;
  readonly system: ConnectionSystem;
}

/** The command was not sent. The cause says why. */
export class NotSentError extends Error {
  constructor(cause: unknown) {
    super(cause instanceof Error ? cause.message || cause.name : String(cause), { cause });
    this.name = "NotSentError";
  }
}

interface Listeners {
  /** The connection has ended by itself. */
  readonly onEnd?: () => void;
  /** The connection was closed because it is of no use. */
  readonly onDrop?: () => void;
}

const QUIET = (): void => {};

export class NodeConnection {
  readonly name: string;
  readonly #connect: Connect;
  readonly #system: ConnectionSystem;
  readonly #listeners: Listeners;
  readonly #attempt: SharedRun<Connection>;
  #connection: Connection | null = null;
  #health: ConnectionHealth;
  /** The next attempt does not start before. */
  #notBeforeMs = 0;
  #isClosed = false;
  #failure: Error | null = null;

  constructor(name: string, connect: Connect, system: ConnectionSystem, listeners: Listeners = {}) {
    this.name = name;
    this.#connect = connect;
    this.#system = system;
    this.#listeners = listeners;
    this.#health = new ConnectionHealth(system);
    this.#attempt = new SharedRun(system);
  }

  /** The open connection, or null. */
  get current(): Connection | null {
    return this.#connection?.isOpen === true ? this.#connection : null;
  }

  /** The oldest call is overdue: the node may be frozen or cut off. */
  get isLate(): boolean {
    return this.#health.isLate;
  }

  get isIdle(): boolean {
    return this.#health.isIdle;
  }

  /** `sendNow` may be called. */
  get isReady(): boolean {
    return this.current !== null && !this.#health.isSilent;
  }

  /** Why there is no connection at the moment. */
  get failure(): Error | null {
    return this.current === null ? this.#failure : null;
  }

  sendNow(command: readonly string[], call: CallContext): Promise<Reply> {
    return this.#sendOn(this.#connection as Connection, command, call);
  }

  async send(command: readonly string[], call: CallContext, isAsking = false): Promise<Reply> {
    if (this.#health.isSilent) await this.#dropIfSilent();
    const connection = this.current ?? (await this.connect(call));
    // Both leave together, so that nothing comes between them.
    if (isAsking) connection.send(["ASKING"]).catch(QUIET);
    return this.#sendOn(connection, command, call);
  }

  /** Rejects with a `NotSentError` unless the error is permanent. */
  async connect(call: CallContext): Promise<Connection> {
    if (this.current !== null) return this.current;
    if (this.#isClosed) throw new NotSentError(new Error(`the connection to ${this.name} is closed`));
    try {
      return await this.#attempt.join(call, (cancel) => this.#connectOnce(cancel));
    } catch (error) {
      throw isPermanent(error) ? error : new NotSentError(error);
    }
  }

  /** The connection is of no use any more. The next call connects again. */
  drop(): void {
    this.#attempt.cancel();
    const connection = this.#connection;
    this.#connection = null;
    this.#health = new ConnectionHealth(this.#system);
    this.#delayNext();
    connection?.close();
    this.#listeners.onDrop?.();
  }

  close(): void {
    this.#isClosed = true;
    this.#attempt.cancel();
    this.#connection?.close();
  }

  #sendOn(connection: Connection, command: readonly string[], { timeoutMs }: CallContext): Promise<Reply> {
    const health = this.#health;
    const open = health.sent(timeoutMs);
    const reply = connection.send(command);
    reply.then(
      () => health.answered(open),
      (error: unknown) => {
        // Either the server has answered, or the connection has ended.
        health.answered(open);
        if (isReadOnly(error) && this.#connection === connection) this.drop();
      },
    );
    return reply;
  }

  /**
   * A blocked event loop runs its timers before it reads from its sockets. The answers may be there, unread,
   * so the sockets are read once more before the connection is closed.
   */
  async #dropIfSilent(): Promise<void> {
    await this.#system.yield();
    if (this.#health.isSilent) this.drop();
  }

  async #connectOnce(cancel: AbortSignal): Promise<Connection> {
    try {
      await this.#pause(cancel);
      const connection = await this.#connect(cancel);
      if (this.#isClosed || cancel.aborted) connection.close();
      if (!connection.isOpen) throw new Error(`the connection to ${this.name} is closed`);
      this.#connection = connection;
      this.#health = new ConnectionHealth(this.#system);
      connection.onEnd(() => this.#ended(connection));
      return connection;
    } catch (error) {
      this.#failure = error instanceof Error ? error : new Error(String(error));
      this.#delayNext();
      throw error;
    }
  }

  #pause(cancel: AbortSignal): Promise<void> | undefined {
    const pauseMs = this.#notBeforeMs - this.#system.monoMs();
    if (pauseMs <= 0) return undefined;
    return new Promise((resolve) => {
      const stop = this.#system.after(pauseMs, resolve, "background");
      cancel.addEventListener("abort", () => {
        stop();
        resolve();
      });
    });
  }

  #ended(connection: Connection): void {
    if (this.#connection !== connection || this.#isClosed) return;
    this.#connection = null;
    this.#delayNext();
    this.#listeners.onEnd?.();
  }

  #delayNext(): void {
    this.#notBeforeMs = this.#system.monoMs() + this.#health.reconnectPauseMs;
  }
}

/** Neither another node nor a later attempt would help. */
function isPermanent(error: unknown): boolean {
  if (LockError.is(error)) return !error.retryable;
  return error instanceof Error && /^(NOAUTH|WRONGPASS|NOPERM)\b/.test(error.message);
}

function isReadOnly(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("READONLY");
}

const REJECTED = /^(CLUSTERDOWN|LOADING|MASTERDOWN|READONLY|MOVED|ASK)\b/;

/** Whether the command has certainly changed nothing, so that it may be sent again. */
export function isUnsent(error: unknown): boolean {
  return error instanceof NotSentError || (error instanceof Error && REJECTED.test(error.message));
}

/** The most specific of several errors: what a node answered rather than that one could not be reached. */
export function mostSpecificError(error: unknown): unknown {
  const errors: unknown[] = error instanceof AggregateError ? error.errors : [error];
  const answered = errors.find(
    (one) => one instanceof Error && !("code" in one && /^E(?!RR_)/.test(String(one.code))),
  );
  return answered ?? errors[0] ?? new Error("no node is known");
}
