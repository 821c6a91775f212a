// `inTransaction`: locks inside the caller's own transaction, so that the lock and the data that it protects
// change atomically. There is no window and no renewal: the database ends the lock with the transaction, even
// if this process dies.

import type { Key, TransactionHandle, TransactionLease, TransactionLocks } from "./api.ts";
import { callTimeoutMs, type Caller } from "./util/store-call.ts";
import { InvalidArgumentError, UnsupportedError } from "./errors.ts";
import { canonicalKeys, showKey } from "./key.ts";
import {
  type AcquireOptions,
  type Defaults,
  readAcquireOptions,
  refuseOptionsLast,
  type AcquireSpec,
} from "./options.ts";
import { abortedError, SHOWN_HOLDERS, timeoutError } from "./acquire/acquire-errors.ts";
import type { HolderInfo, OpenStore, TransactionDesk } from "./store.ts";
import type { System } from "./system.ts";

/** A transaction does not join the queue of a key. It polls, with growing pauses. */
const FIRST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 100;

export interface TransactionDeps {
  readonly name: string;
  readonly caller: Caller;
  readonly system: System;
  readonly defaults: Defaults;
  open(): Promise<OpenStore>;
}

type Answer = Awaited<ReturnType<TransactionDesk["attempt"]>>;

export class InTransaction implements TransactionLocks {
  readonly #tx: TransactionHandle;
  readonly #deps: TransactionDeps;

  constructor(tx: TransactionHandle, deps: TransactionDeps) {
    this.#tx = tx;
    this.#deps = deps;
  }

  async acquire(key: Key, options: AcquireOptions = {}): Promise<TransactionLease> {
    const keys = canonicalKeys(key);
    const spec = this.#spec(options);
    const sinceMs = this.#deps.system.monoMs();
    for (let attempts = 0; ; attempts += 1) {
      if (spec.signal?.aborted) throw abortedError(keys, spec.signal);
      const answer = await this.#attempt(keys, spec);
      if ("granted" in answer) return new TransactionHold(keys, answer.granted, spec);
      const waitedMs = this.#deps.system.monoMs() - sinceMs;
      if (waitedMs >= spec.waitMs) throw this.#timeout(keys, waitedMs, answer.busy);
      const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** attempts);
      await this.#pause(Math.min(spec.waitMs - waitedMs, pauseMs * (0.5 + this.#deps.system.random() / 2)));
    }
  }

  async tryAcquire(key: Key, options: AcquireOptions = {}): Promise<TransactionLease | null> {
    const keys = canonicalKeys(key);
    const spec = this.#spec(options);
    const answer = await this.#attempt(keys, spec);
    return "granted" in answer ? new TransactionHold(keys, answer.granted, spec) : null;
  }

  async using<T>(
    key: Key,
    optionsOrFn: AcquireOptions | ((lease: TransactionLease) => T | Promise<T>),
    maybeFn?: (lease: TransactionLease) => T | Promise<T>,
  ): Promise<T> {
    refuseOptionsLast("using", optionsOrFn, maybeFn);
    const [options, fn] = typeof optionsOrFn === "function" ? [{}, optionsOrFn] : [optionsOrFn, maybeFn];
    if (typeof fn !== "function")
      throw new InvalidArgumentError(`fn of using must be a function, got ${typeof fn}`);
    return fn(await this.acquire(key, options));
  }

  #spec(options: AcquireOptions): AcquireSpec {
    const spec = readAcquireOptions(options, this.#deps.defaults);
    if (spec.limit > 1)
      throw new UnsupportedError(
        `limit must be 1 in a transaction, got ${spec.limit}: acquire a semaphore outside of the transaction`,
      );
    return spec;
  }

  async #attempt(keys: readonly string[], { mode, label, ttlMs }: AcquireSpec): Promise<Answer> {
    const { name, caller } = this.#deps;
    const store = await this.#deps.open();
    if (store.inTransaction === undefined) {
      throw new UnsupportedError(
        `the ${name} store does not support inTransaction: use a postgres or mysql store`,
        { key: keys[0] },
      );
    }
    const desk = store.inTransaction(this.#tx);
    return caller.call("acquire", keys[0], callTimeoutMs(ttlMs), (io) =>
      desk.attempt({ keys, mode, label }, io),
    );
  }

  #timeout(keys: readonly string[], waitedMs: number, busy: readonly HolderInfo[]): Error {
    return timeoutError(
      keys,
      Math.round(waitedMs),
      { holders: busy.slice(0, SHOWN_HOLDERS), holderCount: busy.length },
      0,
    );
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#deps.system.after(ms, resolve);
    });
  }
}

class TransactionHold implements TransactionLease {
  readonly keys: readonly string[];
  readonly label: string;
  readonly mode: AcquireSpec["mode"];
  readonly #fences: readonly bigint[];

  constructor(keys: readonly string[], fences: readonly bigint[], { label, mode }: AcquireSpec) {
    this.keys = keys;
    this.#fences = fences;
    this.label = label;
    this.mode = mode;
  }

  get key(): string {
    return this.keys[0] as string;
  }

  get fence(): bigint {
    if (this.keys.length === 1) return this.#fences[0] as bigint;
    throw new InvalidArgumentError(
      `fence must be read with fenceOf(key), because this lease has ${this.keys.length} keys`,
    );
  }

  fenceOf(key: string): bigint {
    const fence = this.#fences[this.keys.indexOf(key)];
    if (fence !== undefined) return fence;
    throw new InvalidArgumentError(
      `key must be one of ${this.keys.map(showKey).join(", ")}, got ${showKey(String(key))}`,
      { key },
    );
  }

  toJSON(): Record<string, unknown> {
    const { keys, label, mode } = this;
    return { keys, label, mode, fences: this.#fences.map(String) };
  }
}
