// The way to one node: its link, made when it is first needed and again when it has ended. A command that has certainly not
// reached the node is told from one of which that is not known, because only the first may be sent elsewhere.

import { LockError } from "../../core/errors.ts";
import type { Link } from "./link.ts";
import type { Patience, Reply, Sender } from "./port.ts";

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
  readonly #dial: () => Promise<Link>;
  #link: Link | null = null;
  #dialling: Promise<Link> | null = null;
  /** Commands without an answer, the oldest first. */
  readonly #waiting = new Set<{ readonly patience: Patience }>();
  #ended = false;

  /** `dial` gives a link that is ready to be used. */
  constructor(name: string, dial: () => Promise<Link>) {
    this.name = name;
    this.#dial = dial;
  }

  /** A caller has given up on the oldest command: the node may be frozen or cut off. */
  get silent(): boolean {
    const [oldest] = this.#waiting;
    return oldest !== undefined && oldest.patience.signal.aborted;
  }

  get idle(): boolean {
    return this.#waiting.size === 0;
  }

  get open(): boolean {
    return this.#link?.alive === true;
  }

  async send(words: readonly string[], patience: Patience, asking = false): Promise<Reply> {
    const link = this.#link?.alive === true ? this.#link : await this.connect(patience);
    const waiting = { patience };
    this.#waiting.add(waiting);
    try {
      // Both leave in one go, so that nothing comes between them.
      if (asking) link.send(["ASKING"]).catch(QUIET);
      return await link.send(words);
    } finally {
      this.#waiting.delete(waiting);
    }
  }

  /**
   * When the first caller gives up on a connection that does not come about, the next one tries anew; if the first try
   * succeeds late, it serves as well.
   */
  async connect(patience: Patience): Promise<Link> {
    if (this.#ended) throw new NotSentError(new Error(`the connection to ${this.name} was given up`));
    this.#dialling ??= this.#dialOnce();
    const dialling = this.#dialling;
    try {
      return await within(patience, dialling);
    } catch (error) {
      if (this.#dialling === dialling) this.#dialling = null;
      throw hopeless(error) ? error : new NotSentError(error);
    }
  }

  end(): void {
    this.#ended = true;
    this.#link?.end();
  }

  async #dialOnce(): Promise<Link> {
    const link = await this.#dial();
    this.#dialling = null;
    if (!this.#ended && !this.open) this.#link = link;
    else link.end();
    if (this.#link?.alive === true) return this.#link;
    throw new Error(`the connection to ${this.name} was given up`);
  }
}

/** No other node and no later moment would help. */
export function hopeless(error: unknown): boolean {
  if (LockError.is(error)) return !error.retryable;
  return error instanceof Error && /^(NOAUTH|WRONGPASS|NOPERM)\b/.test(error.message);
}

/** As `promise`, but rejects when the caller has stopped listening. */
export function within<T>({ signal }: Patience, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void => reject(new Error("there is no connection to Redis"));
    if (!signal.aborted) signal.addEventListener("abort", giveUp, { once: true });
    // Also where nobody waits for it any more: its failure must not go unhandled.
    promise
      .then(resolve, reject)
      .finally(() => signal.removeEventListener("abort", giveUp))
      .catch(QUIET);
    if (signal.aborted) giveUp();
  });
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
  /** A clock that only runs forward. */
  readonly nowMs: () => number;
}

/** The most telling of several failures: what a node said rather than that one could not be reached. */
export function telling(error: unknown): unknown {
  const errors: unknown[] = error instanceof AggregateError ? error.errors : [error];
  const said = errors.find(
    (one) => one instanceof Error && !("code" in one && /^E(?!RR_)/.test(String(one.code))),
  );
  return said ?? errors[0] ?? new Error("nobody was asked");
}
