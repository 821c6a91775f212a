// Leader election over a lock: a process campaigns until the election is closed. A term is one lease, and
// its fence is larger than that of every earlier term. The term ends when the lease is lost, when `lead`
// returns, or when this process resigns. This process campaigns again only after `lead` has returned, so
// its terms never overlap.

import { isAbortOf, onAbort } from "../util/abort-listener.ts";
import type { Lease } from "../api.ts";
import { LockAbortedError, LockError } from "../errors.ts";
import { showKey } from "../key.ts";
import type { HeldLease } from "../lease/lease.ts";
import type { Guarantees, HolderInfo } from "../store.ts";
import type { System } from "../system.ts";

/** The current leader, in this process or another one. */
export type Leader = HolderInfo;

/**
 * An election for one name.
 *
 * @example
 * const election = locks.elect("scheduler", (lease) => runScheduler(lease.signal));
 * process.once("SIGTERM", () => void election.close());
 * await election.closed;
 */
export interface Election extends AsyncDisposable {
  /** The key of the election. */
  readonly name: string;
  /** Whether this process leads. Reads the clock each time. */
  readonly isLeader: boolean;
  /** Resolves with the current leader anywhere, or with `null` if there is none. */
  leader(): Promise<Leader | null>;
  /**
   * Iterates over the current leader and then every change, until the election is closed or `signal` aborts.
   *
   * @example
   * for await (const leader of election.changes()) console.log(leader?.label ?? "no leader");
   */
  changes(options?: { readonly signal?: AbortSignal | undefined }): AsyncIterable<Leader | null>;
  /**
   * Ends the term of this process, if it leads. The campaign continues. Resolves when `lead` has
   * returned.
   */
  resign(): Promise<void>;
  /** Ends the term and the campaign. Resolves when `lead` has returned. */
  close(): Promise<void>;
  /** Resolves when the election is closed. Rejects with the error that `lead` threw. */
  readonly closed: Promise<void>;
}

/** Runs while this process leads. The term ends when it returns. `lease.signal` tells it to stop. */
export type Lead = (lease: Lease) => unknown;

export interface ElectionDeps {
  readonly system: System;
  guarantees(): Guarantees;
  acquire(signal: AbortSignal): Promise<HeldLease>;
  /** Runs `lead` under the lease and releases the key. */
  run(lease: HeldLease, lead: () => unknown): Promise<void>;
  leader(): Promise<Leader | null>;
  ended(): void;
}

const FIRST_RETRY_MS = 100;
const LONGEST_RETRY_MS = 2_000;
/** The pause between two terms of one process. Other candidates can win, and a short `lead` does not spin. */
const BREAK_MS = 10;

export class RunningElection implements Election {
  readonly name: string;
  readonly closed: Promise<void>;
  readonly #deps: ElectionDeps;
  readonly #lead: Lead | null;
  readonly #over = new AbortController();
  /** Functions that end a sleep, and whether a change of leader in this process ends it. */
  readonly #sleepers = new Map<() => void, boolean>();
  #term: { readonly lease: HeldLease; readonly ended: Promise<void> } | null = null;
  #resigned = false;

  constructor(name: string, lead: Lead | null, deps: ElectionDeps) {
    this.name = name;
    this.#deps = deps;
    this.#lead = lead;
    this.closed = lead === null ? this.#observe() : this.#campaign();
  }

  get isLeader(): boolean {
    const lease = this.#term?.lease;
    return lease !== undefined && lease.held && !lease.signal.aborted;
  }

  leader(): Promise<Leader | null> {
    return this.#deps.leader();
  }

  async *changes(options: { readonly signal?: AbortSignal | undefined } = {}): AsyncIterable<Leader | null> {
    const { signal } = options;
    const off = signal === undefined ? () => {} : onAbort(signal, () => this.#wake());
    let shown: bigint | null | undefined;
    try {
      while (!this.#over.signal.aborted && signal?.aborted !== true) {
        const leader = await this.leader().catch(retryable);
        const fence = leader?.fence ?? null;
        if (leader !== undefined && fence !== shown) {
          shown = fence;
          yield leader;
        } else await this.#sleep(this.#deps.guarantees().pollMs, true);
      }
    } finally {
      off();
    }
  }

  async resign(): Promise<void> {
    const term = this.#term;
    if (term === null) return;
    this.#resigned = true;
    this.#endTerm("this process has resigned");
    await term.ended;
  }

  async close(): Promise<void> {
    this.stop();
    // `closed` reports the error of `lead`.
    await this.closed.catch(() => {});
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** As `close`, without waiting for `lead`. */
  stop(): void {
    this.#endTerm("the election was closed");
    this.#over.abort();
    this.#wake();
  }

  /**
   * Stops because the locks are being closed. `closed` resolves when `lead` has returned, or rejects with its
   * error.
   */
  stopForClose(): void {
    this.#term?.lease.notifyClosed();
    this.stop();
  }

  #endTerm(why: string): void {
    this.#term?.lease.abort(
      new LockAbortedError(`the term as leader of ${showKey(this.name)} is over: ${why}`, { key: this.name }),
    );
  }

  async #observe(): Promise<void> {
    await new Promise<void>((resolve) => {
      onAbort(this.#over.signal, resolve);
    });
    this.#deps.ended();
  }

  async #campaign(): Promise<void> {
    try {
      let failures = 0;
      while (!this.#over.signal.aborted) {
        const lease = await this.#deps.acquire(this.#over.signal).catch(retryable);
        if (lease === undefined || lease === null) {
          if (!this.#over.signal.aborted) await this.#sleep(this.#retryMs(failures));
          failures += 1;
          continue;
        }
        failures = 0;
        await this.#serve(lease);
        await this.#sleep(this.#breakMs());
      }
    } finally {
      this.#over.abort();
      this.#wake();
      this.#deps.ended();
    }
  }

  async #serve(lease: HeldLease): Promise<void> {
    let end = (): void => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    this.#term = { lease, ended };
    this.#resigned = false;
    this.#wake();
    try {
      if (this.#over.signal.aborted) await lease.release().catch(() => false);
      else await this.#deps.run(lease, () => this.#lead?.(lease));
    } catch (error) {
      if (!isAbortOf(lease.signal, error)) throw error;
    } finally {
      this.#term = null;
      this.#wake();
      end();
    }
  }

  /** After a resignation, long enough for others to notice the free key on a store without a queue. */
  #breakMs(): number {
    return this.#resigned ? 2 * this.#deps.guarantees().pollMs : BREAK_MS;
  }

  #retryMs(failures: number): number {
    const ms = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** failures);
    return ms * (0.5 + this.#deps.system.random() / 2);
  }

  /** Ends early if the election ends, and for an observer also after a change of leader in this process. */
  #sleep(ms: number, observer = false): Promise<void> {
    if (this.#over.signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const wake = (): void => {
        cancel();
        this.#sleepers.delete(wake);
        resolve();
      };
      const cancel = this.#deps.system.after(ms, wake);
      this.#sleepers.set(wake, observer);
    });
  }

  #wake(): void {
    const over = this.#over.signal.aborted;
    for (const [wake, observer] of [...this.#sleepers]) if (over || observer) wake();
  }
}

/** Resolves with undefined for a retryable error, and rethrows any other. */
function retryable(error: unknown): undefined {
  if (LockError.is(error) && (error.retryable || error.code === "ERR_LOCK_ABORTED")) return undefined;
  throw error;
}
