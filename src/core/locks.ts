// The entry: checks what the caller asks for, finds out who asks, opens the store on first use, and hands over to the keeper.

import { Actor } from "./actor.ts";
import type { Key, Lease, Locks, OnceResult } from "./api.ts";
import { Caller } from "./call.ts";
import {
  DeadlockError,
  InvalidArgumentError,
  LockAbortedError,
  LockTimeoutError,
  StaleFenceError,
} from "./errors.ts";
import { type EventMap, type EventName, Events } from "./events.ts";
import { requireKind } from "./guarantees.ts";
import { Keeper, lostWith } from "./keeper.ts";
import { canonicalKeys, checkKey, showKey } from "./key.ts";
import { HeldLease } from "./lease.ts";
import {
  type AcquireOptions,
  type Defaults,
  type OnceOptions,
  readAcquireOptions,
  readPositive,
  refuseUnknown,
  type Wish,
} from "./options.ts";
import { abortedError } from "./refusals.ts";
import type { Finding, Guarantees, Io, LockInfo, Store } from "./store.ts";
import type { System } from "./system.ts";

/** Calls that no lease waits for: looking, listing, checking, revoking. */
const LOOK_MS = 5_000;

export class HoldfastLocks implements Locks {
  readonly #store: Store;
  readonly #system: System;
  readonly #defaults: Defaults;
  readonly #events: Events;
  readonly #caller: Caller;
  #opening: Promise<Keeper> | null = null;
  #keeper: Keeper | null = null;
  #closed: Promise<void> | null = null;

  constructor(store: Store, system: System, defaults: Defaults) {
    this.#store = store;
    this.#system = system;
    this.#defaults = defaults;
    this.#events = new Events(system);
    this.#caller = new Caller(system);
  }

  get guarantees(): Guarantees {
    return this.#keeper?.store.guarantees ?? this.#store.guarantees;
  }

  async acquire(key: Key, options: AcquireOptions = {}): Promise<Lease> {
    return this.#acquire(canonicalKeys(key), readAcquireOptions(options, this.#defaults));
  }

  async tryAcquire(key: Key, options: AcquireOptions = {}): Promise<Lease | null> {
    const keys = canonicalKeys(key);
    const wish = readAcquireOptions(options, this.#defaults);
    const actor = this.#actor(wish);
    this.#refuse(keys, wish);
    const keeper = this.#keeper ?? (await this.#open());
    if (actor.holding(keeper, keys) !== null) return null;
    return keeper.tryAcquire(keys, wish, actor);
  }

  async using<T>(
    key: Key,
    optionsOrFn: AcquireOptions | ((lease: Lease) => T | Promise<T>),
    maybeFn?: (lease: Lease) => T | Promise<T>,
  ): Promise<T> {
    const [options, fn] = typeof optionsOrFn === "function" ? [{}, optionsOrFn] : [optionsOrFn, maybeFn];
    if (typeof fn !== "function")
      throw new InvalidArgumentError("using needs a function to run while the key is held");
    const lease = await this.#acquire(canonicalKeys(key), readAcquireOptions(options, this.#defaults));
    return this.#run(lease, fn);
  }

  async once<T>(
    key: Key,
    options: OnceOptions,
    fn: (lease: Lease) => T | Promise<T>,
  ): Promise<OnceResult<T>> {
    if (typeof fn !== "function")
      throw new InvalidArgumentError("once needs a function to run while the key is held");
    const { atLeast, ...rest } = options ?? {};
    const keepMs = readPositive("atLeast", atLeast);
    const keys = canonicalKeys(key);
    const wish = readAcquireOptions({ wait: 0, ...rest }, this.#defaults, keepMs);
    let lease: HeldLease;
    try {
      lease = await this.#acquire(keys, wish);
    } catch (error) {
      if (error instanceof LockTimeoutError) return { ran: false };
      throw error;
    }
    return { ran: true, result: await this.#run(lease, fn) };
  }

  async inspect(key: string): Promise<LockInfo | null> {
    checkKey(key);
    return this.#look("inspection", key, (keeper, io) => keeper.store.inspect(key, io));
  }

  async *list(options: { readonly prefix?: string; readonly limit?: number } = {}): AsyncIterable<LockInfo> {
    refuseUnknown("list", options, ["prefix", "limit"]);
    const { prefix = "", limit = Number.POSITIVE_INFINITY } = options;
    if (typeof prefix !== "string") throw new InvalidArgumentError("prefix of list is not a string");
    if (typeof limit !== "number" || !(limit >= 0))
      throw new InvalidArgumentError("limit of list is not a count");
    this.#refuseClosed();
    const keeper = this.#keeper ?? (await this.#open());
    yield* keeper.store.list({ prefix, limit }, this.#caller.io("list", LOOK_MS));
  }

  async revoke(
    key: string,
    options: { readonly fence?: bigint; readonly reason: string; readonly force?: boolean },
  ): Promise<boolean> {
    checkKey(key);
    refuseUnknown("revoke", options, ["fence", "reason", "force"]);
    const { fence, reason, force = false } = options;
    if (typeof reason !== "string" || reason === "") {
      throw new InvalidArgumentError("revoke needs a reason: the holder and the audit event show it");
    }
    if (fence !== undefined && typeof fence !== "bigint")
      throw new InvalidArgumentError("fence of revoke is a bigint");
    const wish = { reason, force, ...(fence === undefined ? {} : { fence }) };
    const answer = await this.#look("revocation", key, (keeper, io) => keeper.store.revoke(key, wish, io));
    if (answer === "free") return false;
    if (answer === "other-fence") throw await this.#otherFence(key, fence as bigint);
    this.#events.emit("revoked", () => ({ key, reason, force, by: this.#defaults.label }));
    return true;
  }

  async check(): Promise<readonly Finding[]> {
    return this.#look("check", undefined, (keeper, io) => keeper.store.check(io));
  }

  on<E extends EventName>(event: E, listener: (event: EventMap[E]) => void): () => void {
    return this.#events.on(event, listener);
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    // A store that could not be opened has nothing to give back.
    const keeper = this.#keeper ?? (await this.#opening?.catch(() => null));
    await keeper?.close();
    this.#caller.stop();
  }

  async #acquire(keys: readonly string[], wish: Wish): Promise<HeldLease> {
    const sinceMs = this.#system.monoMs();
    const actor = this.#actor(wish);
    this.#refuse(keys, wish);
    const keeper = this.#keeper ?? (await this.#open());
    const own = actor.holding(keeper, keys);
    if (own !== null) throw selfDeadlock(own, keys, wish);
    return keeper.acquire(keys, wish, actor, sinceMs);
  }

  /** Runs `fn` under the lease, as its actor, and lets go. A failing release hides neither its result nor its error. */
  async #run<T>(lease: HeldLease, fn: (lease: Lease) => T | Promise<T>): Promise<T> {
    try {
      const result = await lease.actor.run(() => fn(lease));
      const lost = lostWith(lease, result);
      if (lost !== null) throw lost;
      return result;
    } finally {
      await lease.release().catch(() => false);
    }
  }

  #actor(wish: Wish): Actor {
    if (wish.within !== null) {
      if (!(wish.within instanceof HeldLease))
        throw new InvalidArgumentError("within is not a lease of this package");
      return wish.within.actor;
    }
    return Actor.current() ?? new Actor(this.#system.processLabel);
  }

  #refuse(keys: readonly string[], wish: Wish): void {
    this.#refuseClosed();
    if (wish.signal?.aborted) throw abortedError(keys, wish.signal);
    const key = keys[0] as string;
    if (wish.mode === "shared") requireKind(this.#store.name, this.guarantees, "shared", key);
    if (wish.limit > 1) requireKind(this.#store.name, this.guarantees, "semaphore", key);
    if (wish.keepMs > 0) requireKind(this.#store.name, this.guarantees, "keep", key);
  }

  #refuseClosed(): void {
    if (this.#closed !== null)
      throw new LockAbortedError("these locks are closed: make new ones with createLocks()");
  }

  /** Opened on first use, once; a failure is told to everybody who waited for it, and the next call tries again. */
  #open(): Promise<Keeper> {
    this.#opening ??= this.#openOnce().catch((error: unknown) => {
      this.#opening = null;
      throw error;
    });
    return this.#opening;
  }

  async #openOnce(): Promise<Keeper> {
    const { namespace, allow, handoffMs } = this.#defaults;
    const opened = this.#store.open({ namespace, allow, system: this.#system });
    try {
      const store = await this.#caller.call("opening", undefined, LOOK_MS, () => opened);
      this.#keeper = new Keeper(store, this.#caller, this.#system, this.#events, handoffMs);
      return this.#keeper;
    } catch (error) {
      // A store that opens after everybody has given up on it must not stay open.
      opened.then((late) => late.close()).catch(() => {});
      throw error;
    }
  }

  async #look<T>(
    what: string,
    key: string | undefined,
    run: (keeper: Keeper, io: Io) => Promise<T>,
  ): Promise<T> {
    this.#refuseClosed();
    const keeper = this.#keeper ?? (await this.#open());
    return this.#caller.call(what, key, LOOK_MS, (io) => run(keeper, io));
  }

  async #otherFence(key: string, fence: bigint): Promise<StaleFenceError> {
    const info = await this.inspect(key);
    const seen = info?.holders[0]?.fence ?? 0n;
    return new StaleFenceError(
      `${showKey(key)} was not revoked: the holder with fence ${fence} is gone, the key is now held with fence ${seen}`,
      { key, fence, seen },
    );
  }
}

function selfDeadlock(own: HeldLease, keys: readonly string[], wish: Wish): DeadlockError {
  const key = own.keys.find((one) => keys.includes(one)) as string;
  return new DeadlockError(
    `${showKey(key)} is already held by this very actor (${own.label}), so waiting for it would never end. Use the lease that is held, or acquire outside of its scope`,
    { key, cycle: [{ label: wish.label, holds: key, waitsFor: key }] },
  );
}
