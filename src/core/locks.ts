// The implementation of `Locks`: it validates the options, finds the calling actor, opens the store on
// first use and calls the lock manager.

import { onAbort } from "./util/abort-listener.ts";
import { Actor } from "./lease/actor.ts";
import type { Key, Lease, Locks, OnceResult, TransactionHandle, TransactionLocks } from "./api.ts";
import { anyAnswer, Caller } from "./util/store-call.ts";
import { showCallers } from "./util/caller-frame.ts";
import { type Election, type Lead, RunningElection } from "./election/election.ts";
import { InvalidArgumentError, LockTimeoutError } from "./errors.ts";
import { type EventMap, type EventName, Events } from "./events.ts";
import { requireKind } from "./guarantees.ts";
import { JoinedLease } from "./lease/reentrant-lease.ts";
import { type Admits, LockManager, lossBehind, lostWith } from "./acquire/lock-manager.ts";
import { canonicalKeys, checkKey } from "./key.ts";
import { HeldLease } from "./lease/lease.ts";
import { LeaseHandle } from "./lease/lease-handle.ts";
import { listLocks, otherFence, readListOptions, readRevokeOptions } from "./admin-options.ts";
import { openWithin } from "./opening.ts";
import {
  type AcquireOptions,
  type CloseOptions,
  type Defaults,
  type ElectOptions,
  type OnceOptions,
  readAcquireOptions,
  readCloseOptions,
  readElectOptions,
  readPositive,
  refuseOptionsLast,
  type AcquireSpec,
} from "./options.ts";
import { entry, ownSections } from "./lease/reentry.ts";
import { abortedError, closedError, orAborted } from "./acquire/acquire-errors.ts";
import { Shutdown } from "./shutdown.ts";
import type { Finding, Guarantees, Io, LockInfo, OpenStore, Store } from "./store.ts";
import type { System } from "./system.ts";
import { acquiring, tracedAcquire } from "./tracing.ts";
import { InTransaction } from "./transaction.ts";
import { forPeople } from "./deadlock/wait-note.ts";

/** The timeout of calls without a lease: inspect, list, check and revoke. */
const LOOK_MS = 5_000;

type Handle = HeldLease | JoinedLease;

export class HoldfastLocks implements Locks {
  readonly #store: Store;
  readonly #system: System;
  readonly #defaults: Defaults;
  readonly #defaultSpec: AcquireSpec;
  readonly #events: Events;
  readonly #caller: Caller;
  readonly #elections = new Set<RunningElection>();
  readonly #shutdown: Shutdown;
  #loading: Promise<unknown> | null = null;
  #opening: Promise<LockManager> | null = null;
  #manager: LockManager | null = null;

  constructor(store: Store, system: System, defaults: Defaults) {
    this.#store = store;
    this.#system = system;
    this.#defaults = defaults;
    this.#defaultSpec = readAcquireOptions({}, defaults);
    this.#events = new Events(system);
    this.#caller = new Caller(system);
    this.#shutdown = new Shutdown({
      system,
      elections: this.#elections,
      manager: () => this.#manager,
      // A store that could not be opened has nothing to release.
      opening: async () => this.#opening?.catch(() => null) ?? null,
      closed: () => this.#caller.stop(),
    });
  }

  get guarantees(): Guarantees {
    return this.#manager?.store.guarantees ?? this.#store.guarantees;
  }

  /** Not an async function, so that an uncontended call costs only one promise here. */
  acquire(key: Key, options?: AcquireOptions): Promise<Lease> {
    try {
      const spec = options === undefined ? this.#defaultSpec : readAcquireOptions(options, this.#defaults);
      const keys = canonicalKeys(key);
      const actor = this.#actor(spec);
      const alone = this.#acquireAlone(keys, spec, actor, handleOf);
      return alone ?? this.#acquire(keys, spec, actor).then(handleOf);
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  async tryAcquire(key: Key, options: AcquireOptions = {}): Promise<Lease | null> {
    const keys = canonicalKeys(key);
    const spec = readAcquireOptions(options, this.#defaults);
    const actor = this.#actor(spec);
    const granted = await this.#asked(keys, spec, 0, async () => {
      this.#refuse(keys, spec, actor);
      const manager = this.#manager ?? (await this.#openFor(keys, spec, 0, actor));
      // A store may promise less once its server is known.
      this.#refuse(keys, spec, actor);
      const own = entry(ownSections(actor, manager), keys, spec);
      if (own instanceof Error) return null;
      if (own !== null) return new JoinedLease(own, keys, spec.label, actor);
      const lease = await manager.tryAcquire(keys, spec, actor);
      return lease === null || this.#shutdown.admits(actor) ? lease : this.#undo(lease);
    });
    return granted === null ? null : handleOf(granted);
  }

  async using<T>(
    key: Key,
    optionsOrFn: AcquireOptions | ((lease: Lease) => T | Promise<T>),
    maybeFn?: (lease: Lease) => T | Promise<T>,
  ): Promise<T> {
    refuseOptionsLast("using", optionsOrFn, maybeFn);
    const hasOptions = typeof optionsOrFn !== "function";
    const fn = hasOptions ? maybeFn : optionsOrFn;
    if (typeof fn !== "function")
      throw new InvalidArgumentError(`fn of using must be a function, got ${typeof fn}`);
    const spec = hasOptions ? readAcquireOptions(optionsOrFn, this.#defaults) : this.#defaultSpec;
    const keys = canonicalKeys(key);
    const actor = this.#actor(spec);
    const alone = this.#acquireAlone<Handle>(keys, spec, actor, (lease) => lease);
    return this.#run(await (alone ?? this.#acquire(keys, spec, actor)), fn);
  }

  async once<T>(
    key: Key,
    options: OnceOptions,
    fn: (lease: Lease) => T | Promise<T>,
  ): Promise<OnceResult<T>> {
    if (typeof fn !== "function")
      throw new InvalidArgumentError(`fn of once must be a function, got ${typeof fn}`);
    const { atLeast, ...rest } = options ?? {};
    const keepMs = readPositive("atLeast", atLeast);
    const keys = canonicalKeys(key);
    const spec = readAcquireOptions({ ...rest, wait: rest.wait ?? 0 }, this.#defaults, keepMs);
    let lease: Handle;
    try {
      lease = await this.#acquire(keys, spec, this.#actor(spec));
    } catch (error) {
      if (error instanceof LockTimeoutError) return { ran: false };
      throw error;
    }
    return { ran: true, result: await this.#run(lease, fn) };
  }

  elect(name: string, optionsOrLead: ElectOptions | Lead = {}, maybeLead?: Lead): Election {
    refuseOptionsLast("elect", optionsOrLead, maybeLead);
    const [options, lead] =
      typeof optionsOrLead === "function" ? [{}, optionsOrLead] : [optionsOrLead, maybeLead];
    const spec = readElectOptions(options, this.#defaults);
    const keys = [checkKey(name)];
    this.#refuse(keys, spec, null);
    const election: RunningElection = new RunningElection(name, lead ?? null, {
      system: this.#system,
      guarantees: () => this.guarantees,
      // An actor of its own, because a campaign outlives the scope in which it was started.
      acquire: async (signal) =>
        (await this.#acquire(keys, { ...spec, signal }, this.#newActor(null))) as HeldLease,
      run: (lease, fn) => this.#runLead(lease, fn, () => election.closed),
      leader: async () => (await this.inspect(name))?.holders.find((holder) => !holder.kept) ?? null,
      ended: () => {
        off();
        this.#elections.delete(election);
      },
    });
    this.#elections.add(election);
    const off = spec.signal === null ? () => {} : onAbort(spec.signal, () => election.stop());
    return election;
  }

  async inspect(key: string): Promise<LockInfo | null> {
    checkKey(key);
    const info = await this.#look("inspection", key, (manager, io) => manager.store.inspect(key, io));
    return info === null ? null : forPeople(info);
  }

  async *list(
    options: { readonly prefix?: string | undefined; readonly limit?: number | undefined } = {},
  ): AsyncIterable<LockInfo> {
    const spec = readListOptions(options);
    const manager = await this.#opened();
    yield* listLocks(manager.store, this.#caller, spec, LOOK_MS);
  }

  async revoke(
    key: string,
    options: {
      readonly fence?: bigint | undefined;
      readonly reason: string;
      readonly force?: boolean | undefined;
    },
  ): Promise<boolean> {
    checkKey(key);
    const spec = readRevokeOptions(options);
    const { fence, reason, force } = spec;
    const answer = await this.#look(
      "revocation",
      key,
      (manager, io) => manager.store.revoke(key, spec, io),
      // "free" may be the result of the first try, which has revoked the key.
      (answered) => answered === "revoked",
    );
    if (answer === "free") return false;
    if (answer === "other-fence") throw otherFence(key, fence as bigint, await this.inspect(key));
    this.#events.emit("revoked", () => ({ key, reason, force, by: this.#defaults.label }));
    return true;
  }

  async check(): Promise<readonly Finding[]> {
    return this.#look("check", undefined, async ({ store, holds }, io) => [
      ...(await store.check(io)),
      ...holds.renewal.clocks.findings(),
    ]);
  }

  inTransaction(tx: TransactionHandle): TransactionLocks {
    const { name } = this.#store;
    const [caller, system, defaults] = [this.#caller, this.#system, this.#defaults];
    const open = (): Promise<OpenStore> => this.#opened().then((manager) => manager.store);
    return new InTransaction(tx, { name, caller, system, defaults, open });
  }

  on<E extends EventName>(event: E, listener: (event: EventMap[E]) => void): () => void {
    return this.#events.on(event, listener);
  }

  async close(options: CloseOptions = {}): Promise<void> {
    await this.#shutdown.close(readCloseOptions(options));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /**
   * The fast path for a key that no other call of this process wants. Returns null if the store is not
   * open yet, if the call is traced or has a signal, if the locks are being closed, or if the same actor
   * holds the key.
   */
  #acquireAlone<T>(
    keys: readonly string[],
    spec: AcquireSpec,
    actor: Actor,
    asResult: (lease: HeldLease) => T,
  ): Promise<T> | null {
    const manager = this.#manager;
    if (manager === null || spec.signal !== null || acquiring.hasSubscribers || !this.#shutdown.isOpen)
      return null;
    if (actor.isNested && entry(ownSections(actor, manager), keys, spec) !== null) return null;
    return manager.acquireAlone(keys, spec, actor, asResult);
  }

  #acquire(keys: readonly string[], spec: AcquireSpec, actor: Actor): Promise<Handle> {
    return this.#asked(keys, spec, spec.waitMs, async (sinceMs) => {
      this.#refuse(keys, spec, actor);
      const manager = this.#manager ?? (await this.#openFor(keys, spec, spec.waitMs, actor));
      // A store may promise less once its server is known.
      this.#refuse(keys, spec, actor);
      const own = entry(ownSections(actor, manager), keys, spec);
      if (own instanceof Error) throw own;
      if (own !== null) return new JoinedLease(own, keys, spec.label, actor);
      const lease = await manager.acquire(keys, spec, actor, sinceMs);
      return this.#shutdown.admits(actor) ? lease : this.#undo(lease);
    });
  }

  /**
   * Releases a grant whose caller has not continued yet when the locks are closed, because no callback
   * may start after `close`.
   */
  async #undo(lease: Handle): Promise<never> {
    await lease.release().catch(() => false);
    throw closedError(lease.keys);
  }

  /**
   * As `#runHeld`, but rejects when the locks are closed before `fn` has ended. The later result of `fn`
   * is ignored.
   */
  #run<T>(lease: Handle, fn: (lease: Lease) => T | Promise<T>): Promise<T> {
    if (!this.#shutdown.admits(lease.actor)) return this.#undo(lease);
    return new Promise((resolve, reject) => {
      this.#shutdown.began(lease, { lease, interrupt: reject });
      this.#runHeld(lease, fn).then(resolve, reject);
    });
  }

  /** Traces a call for keys, and emits the event for its error. */
  async #asked<T>(
    keys: readonly string[],
    spec: AcquireSpec,
    waitMs: number,
    ask: (sinceMs: number) => Promise<T>,
  ): Promise<T> {
    const sinceMs = this.#system.monoMs();
    try {
      return await tracedAcquire(keys, spec, waitMs, () => ask(sinceMs));
    } catch (error) {
      // `once` resolves where another replica has the key.
      const isOutcome = spec.keepMs > 0 && error instanceof LockTimeoutError;
      if (!isOutcome) this.#events.failed(error, keys, spec.label, this.#system.monoMs() - sinceMs);
      throw error;
    }
  }

  /**
   * Runs `fn` as the actor of the lease, and then releases the lease. A failing release hides neither the
   * result nor the error of `fn`.
   */
  async #runHeld<T>(lease: Handle, fn: (lease: Lease) => T | Promise<T>): Promise<T> {
    try {
      const result = await lease.actor.run(() => fn(lease));
      const lost = lostWith(lease, result);
      if (lost !== null) throw lost;
      return result;
    } catch (error) {
      throw lossBehind(lease.signal, error) ?? error;
    } finally {
      await lease.release().catch(() => false);
      this.#shutdown.ended(lease);
    }
  }

  /**
   * An election has no call to reject: its promise `closed` rejects with the error of `lead`.
   */
  async #runLead(lease: HeldLease, lead: () => unknown, closed: () => Promise<void>): Promise<void> {
    this.#shutdown.began(lease, { lease, interrupt: () => void closed().catch(() => {}) });
    try {
      await lease.actor.run(lead);
    } finally {
      await lease.release().catch(() => false);
      this.#shutdown.ended(lease);
    }
  }

  /**
   * A call is an actor of its own, nested in the scope in which it was made or in the actor that `within`
   * names.
   */
  #actor(spec: AcquireSpec): Actor {
    if (spec.within === null) return this.#newActor(Actor.current());
    const within = LeaseHandle.unwrap(spec.within);
    if (within instanceof HeldLease || within instanceof JoinedLease)
      return this.#newActor(within.actor.live);
    throw new InvalidArgumentError(
      "within must be a lease that acquire, tryAcquire, using, once or elect returned",
    );
  }

  #newActor(outer: Actor | null): Actor {
    return new Actor(this.#system.processLabel, outer);
  }

  #refuse(keys: readonly string[], spec: AcquireSpec, actor: Actor | null): void {
    this.#shutdown.refuse(actor, keys);
    if (spec.signal?.aborted) throw abortedError(keys, spec.signal);
    const key = keys[0] as string;
    if (spec.mode === "shared") requireKind(this.#store.name, this.guarantees, "shared", key);
    if (spec.limit > 1) requireKind(this.#store.name, this.guarantees, "semaphore", key);
    if (spec.keepMs > 0) requireKind(this.#store.name, this.guarantees, "keep", key);
  }

  /**
   * Opens the store once, on first use. If it fails, all waiting calls reject, and the next call tries again.
   */
  #open(): Promise<LockManager> {
    this.#opening ??= this.#openOnce().catch((error: unknown) => {
      this.#opening = null;
      throw error;
    });
    return this.#opening;
  }

  /** Waits for the opening for at most `waitMs`. 0: no retries. */
  async #openFor(
    keys: readonly string[],
    spec: AcquireSpec,
    waitMs: number,
    actor: Actor,
  ): Promise<LockManager> {
    const { signal } = spec;
    // Loading modules from the disk does not count under `wait`.
    if (this.#store.load !== undefined) await orAborted(keys, signal, this.#load());
    const open = (): Promise<LockManager> => {
      this.#shutdown.refuse(actor, keys);
      return this.#open();
    };
    const opened = openWithin(open, { keys, waitMs, signal }, this.#system);
    return this.#shutdown.orClosed(actor, keys, opened);
  }

  async #opened(): Promise<LockManager> {
    const actor = Actor.current();
    this.#shutdown.refuse(actor);
    return this.#manager ?? (await this.#shutdown.orClosed(actor, [], this.#open()));
  }

  /** Ignores errors: `open` throws them again. */
  #load(): Promise<unknown> {
    this.#loading ??= this.#store.load?.().catch(() => {}) ?? Promise.resolve();
    return this.#loading;
  }

  async #openOnce(): Promise<LockManager> {
    const { namespace, allow } = this.#defaults;
    await this.#load();
    const opened = this.#store.open({ namespace, allow, system: this.#system });
    try {
      const store = await this.#caller.call("opening", undefined, LOOK_MS, () => opened);
      const admits: Admits = (actor) => this.#shutdown.admits(actor);
      this.#manager = new LockManager(
        store,
        this.#caller,
        this.#system,
        this.#events,
        this.#defaults,
        admits,
      );
      return this.#manager;
    } catch (error) {
      // A store that opens after the locks were closed must not stay open.
      opened.then((late) => late.close()).catch(() => {});
      throw error;
    }
  }

  async #look<T>(
    what: string,
    key: string | undefined,
    run: (manager: LockManager, io: Io) => Promise<T>,
    settles: (answer: T) => boolean = anyAnswer,
  ): Promise<T> {
    const sinceMs = this.#system.monoMs();
    try {
      const manager = await this.#opened();
      const answer = this.#caller.call(what, key, LOOK_MS, (io) => run(manager, io), settles);
      return await this.#shutdown.orClosed(Actor.current(), [], answer);
    } catch (error) {
      const keys = key === undefined ? [] : [key];
      this.#events.failed(error, keys, this.#defaults.label, this.#system.monoMs() - sinceMs);
      throw error;
    }
  }
}

/** The handle for the caller of a plain call. A re-entry is returned as it is. */
function handleOf(lease: Handle): Lease {
  return lease instanceof HeldLease ? new LeaseHandle(lease) : lease;
}

showCallers(HoldfastLocks.prototype, "acquire", "tryAcquire", "using", "once", "inspect", "revoke", "check");
