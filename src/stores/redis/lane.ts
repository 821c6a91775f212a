// The way to one node: its link, made when it is first needed and again when it has ended or stopped answering.
// A command that has certainly not reached the node is told from one of which that is not known, because only
// the first may be sent elsewhere.

import { LockError } from "../../core/errors.ts";
import { ConnectionHealth, type HealthSystem } from "../shared/connection-health.ts";
import type { Link } from "./link.ts";
import type { Patience, Reply, Sender } from "./port.ts";
import { SharedRun } from "./shared-run.ts";

const QUIET = (): void => {};

/** The command was not sent. The cause says why. */
export class NotSentError extends Error {
  constructor(cause: unknown) {
    super(cause instanceof Error ? cause.message || cause.name : String(cause), { cause });
    this.name = "NotSentError";
  }
}

export class Lane {
  readonly name: string;
  readonly #dial: (cancel: AbortSignal) => Promise<Link>;
  readonly #system: HealthSystem;
  readonly #onSilence: () => void;
  #link: Link | null = null;
  /** Of the link. */
  #health: ConnectionHealth;
  readonly #dialling: SharedRun<Link>;
  /** Before the next connection is made. */
  #pauseMs = 0;
  #ended = false;
  /** Why the last connection did not come about. */
  #failure: Error | null = null;

  /** `dial` gives a link that is ready to be used. `onSilence` hears of a link that was closed unanswered. */
  constructor(
    name: string,
    dial: (cancel: AbortSignal) => Promise<Link>,
    system: HealthSystem,
    onSilence: () => void = QUIET,
  ) {
    this.name = name;
    this.#dial = dial;
    this.#system = system;
    this.#onSilence = onSilence;
    this.#health = new ConnectionHealth(system);
    this.#dialling = new SharedRun(system);
  }

  /** The oldest command is overdue: the node may be frozen or cut off. */
  get late(): boolean {
    return this.#health.isLate;
  }

  get idle(): boolean {
    return this.#health.isIdle;
  }

  get open(): boolean {
    return this.#link?.alive === true;
  }

  /** Why there is no connection at the moment. */
  get failure(): Error | null {
    return this.open ? null : this.#failure;
  }

  /** A command can be sent at once. */
  get ready(): boolean {
    return this.open && !this.#health.isSilent;
  }

  /** Only where it is ready. */
  sendNow(words: readonly string[], patience: Patience): Promise<Reply> {
    const link = this.#link as Link;
    return this.#health.watch(patience.timeoutMs, () => link.send(words));
  }

  async send(words: readonly string[], patience: Patience, asking = false): Promise<Reply> {
    if (this.#health.isSilent) await this.#dropUnlessBlocked();
    if (!this.open) await this.connect(patience);
    // Both leave in one go, so that nothing comes between them.
    if (asking) this.#link?.send(["ASKING"]).catch(QUIET);
    return this.sendNow(words, patience);
  }

  async connect(patience: Patience): Promise<Link> {
    if (this.#ended) throw new NotSentError(new Error(`the connection to ${this.name} was given up`));
    try {
      return await this.#dialling.join(patience, (cancel) => this.#dialOnce(patience, cancel));
    } catch (error) {
      throw hopeless(error) ? error : new NotSentError(error);
    }
  }

  end(): void {
    this.#ended = true;
    this.#dialling.cancel();
    this.#link?.end();
  }

  /**
   * A blocked event loop runs its timers before it reads from its sockets. The answers may be there, unread,
   * so the sockets are read once more before the link is closed.
   */
  async #dropUnlessBlocked(): Promise<void> {
    await this.#system.yield();
    if (this.#health.isSilent) this.#drop();
  }

  /** The link does not answer. Its commands fail, and the next one connects again. */
  #drop(): void {
    const link = this.#link;
    this.#link = null;
    this.#pauseMs = this.#health.reconnectPauseMs;
    this.#health = new ConnectionHealth(this.#system);
    link?.end();
    this.#onSilence();
  }

  async #dialOnce(patience: Patience, cancel: AbortSignal): Promise<Link> {
    const pauseMs = this.#pauseMs;
    this.#pauseMs = 0;
    try {
      if (pauseMs > 0) await patience.sleep?.(pauseMs);
      const link = await this.#dial(cancel);
      if (!this.#ended && !this.open) {
        this.#link = link;
        this.#health = new ConnectionHealth(this.#system);
      } else link.end();
      if (this.#link?.alive === true) return this.#link;
      throw new Error(`the connection to ${this.name} was given up`);
    } catch (error) {
      this.#failure = error instanceof Error ? error : new Error(String(error));
      throw error;
    }
  }
}

/** No other node and no later moment would help. */
export function hopeless(error: unknown): boolean {
  if (LockError.is(error)) return !error.retryable;
  return error instanceof Error && /^(NOAUTH|WRONGPASS|NOPERM)\b/.test(error.message);
}

const REFUSED = /^(CLUSTERDOWN|LOADING|MASTERDOWN|READONLY|MOVED|ASK)\b/;

/** Whether the command has certainly changed nothing, so that it may be sent again, elsewhere or later. */
export function notExecuted(error: unknown): boolean {
  return error instanceof NotSentError || (error instanceof Error && REFUSED.test(error.message));
}

/** What a port is given by the store that opens it. */
export interface Surroundings {
  /** Throws when the node that was connected to is none to lock on. */
  vet(node: Sender): Promise<void>;
  readonly system: HealthSystem;
}

/** The most telling of several failures: what a node said rather than that one could not be reached. */
export function telling(error: unknown): unknown {
  const errors: unknown[] = error instanceof AggregateError ? error.errors : [error];
  const said = errors.find(
    (one) => one instanceof Error && !("code" in one && /^E(?!RR_)/.test(String(one.code))),
  );
  return said ?? errors[0] ?? new Error("nobody was asked");
}
