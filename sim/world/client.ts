// A simulated client process: the real core over a simulated store, and tasks that lock, work and let go as users do.

import type { Lease } from "../../src/core/api.ts";
import { LockError } from "../../src/core/errors.ts";
import { HoldfastLocks } from "../../src/core/locks.ts";
import { type AcquireOptions, readLocksOptions } from "../../src/core/options.ts";
import type { Store } from "../../src/core/store.ts";
import type { HistoryEvent } from "../history.ts";
import type { SimSettings } from "../settings.ts";
import type { Network } from "./network.ts";
import type { SimProcess } from "./process.ts";
import type { Random } from "./random.ts";
import type { Resource } from "./resource.ts";
import type { Timeline } from "./timeline.ts";

export interface ClientDeps {
  readonly timeline: Timeline;
  readonly network: Network;
  readonly resource: Resource;
  readonly record: (event: HistoryEvent) => void;
  readonly settings: SimSettings;
  /** The store has to be opened first. */
  readonly opens: boolean;
  /** True time at which tasks stop asking. */
  readonly endMs: number;
}

interface Plan {
  readonly keys: readonly string[];
  readonly options: AcquireOptions & { readonly wait: number; readonly ttl: number };
  readonly tries: boolean;
  /** The lease that it holds meanwhile. */
  readonly within?: Lease;
}

export class SimClient {
  readonly name: string;
  readonly process: SimProcess;
  readonly locks: HoldfastLocks;
  readonly #deps: ClientDeps;
  readonly #random: Random;
  readonly #leases = new Set<Lease>();
  #stallMs = 0;
  #asks = 0;
  #running = 0;
  #isLeaving = false;

  constructor(process: SimProcess, store: Store, random: Random, deps: ClientDeps) {
    this.name = process.processLabel;
    this.process = process;
    this.#deps = deps;
    this.#random = random;
    const options = readLocksOptions({ handoff: deps.settings.handoffMs }, this.name);
    this.locks = new HoldfastLocks(store, process, options);
    // What a scope holds belongs to no ask, so that the checkers cannot judge it.
    const isScope = (key: string): boolean => key === this.#scopeKey;
    this.locks.on("renewed", (event) => {
      if (isScope(event.key)) return;
      const remainingMs = event.remainingMs / process.rate;
      deps.record({
        type: "renewed",
        at: deps.timeline.now,
        client: this.name,
        lease: `${event.key}@${event.fence}`,
        remainingMs,
      });
    });
    this.locks.on("lost", (event) => {
      if (isScope(event.key)) return;
      const lease = `${event.key}@${event.fence}`;
      deps.record({ type: "lost", at: deps.timeline.now, client: this.name, lease, reason: event.reason });
    });
  }

  /** The key of the scope that its tasks run in, where they are siblings. */
  get #scopeKey(): string {
    return scopeKey(this.name);
  }

  get idle(): boolean {
    return this.#running === 0;
  }

  start(tasks: number): void {
    this.#running += 1;
    const run = (): Promise<unknown> => Promise.all(Array.from({ length: tasks }, () => this.#task()));
    void (this.#deps.settings.siblings === true ? this.#scope(run) : run()).finally(() => {
      this.#running -= 1;
    });
  }

  /** Runs the tasks as siblings in one scope, which holds a key that no other client asks for. */
  async #scope(run: () => Promise<unknown>): Promise<void> {
    await this.#open();
    const options = { ttl: this.#deps.settings.ttlMs, wait: 0 };
    let started = false;
    const start = (): Promise<unknown> => {
      started = true;
      return run();
    };
    try {
      await this.locks.using(this.#scopeKey, options, start);
    } catch (error) {
      if (!LockError.is(error)) throw error;
      // A scope that was lost is none, and its tasks go on. One that never began is done without.
      if (!started) await run();
    }
  }

  /** One ask that waits for as long as it takes. Used after the healing. */
  async probe(keys: readonly string[], ttl: number): Promise<void> {
    await this.#open();
    const limits = this.#deps.settings.kinds === "semaphore" ? { limit: 3 } : {};
    const lease = await this.#acquire({
      keys,
      options: { ttl, wait: Number.POSITIVE_INFINITY, ...limits },
      tries: false,
    });
    if (lease !== null) await this.#letGo(lease);
  }

  /**
   * Takes and releases the key of a scope: a store may keep what a dead client left until somebody asks for
   * it.
   */
  async sweep(client: string): Promise<void> {
    await this.#open();
    const options = { ttl: this.#deps.settings.ttlMs, wait: Number.POSITIVE_INFINITY };
    await this.locks.using(scopeKey(client), options, ignore);
  }

  /** What its leases say now. */
  look(): void {
    const { record, timeline } = this.#deps;
    if (this.process.state !== "running") return;
    for (const lease of this.#leases) {
      const remainingMs = lease.remaining / this.process.rate;
      if (remainingMs > 0)
        record({ type: "believes", at: timeline.now, client: this.name, lease: nameOf(lease), remainingMs });
    }
  }

  /** Closes its locks while its tasks are at work; they begin nothing new. */
  shutDown(drainMs: number): void {
    const { record, timeline } = this.#deps;
    this.#isLeaving = true;
    record({ type: "closing", at: timeline.now, client: this.name, drainMs });
    void this.locks
      .close({ drain: drainMs })
      .then(() => record({ type: "closed", at: timeline.now, client: this.name }));
  }

  /** Only where it matters, so that other worlds stay what they were. */
  get #usesCallbacks(): boolean {
    return this.#deps.settings.faults.some(({ kind }) => kind === "shutdown");
  }

  /** The next section of this client ends with a computation that blocks the event loop for so long. */
  stall(ms: number): void {
    this.#stallMs = ms;
  }

  async #block(): Promise<void> {
    const ms = this.#stallMs;
    this.#stallMs = 0;
    if (ms === 0 || this.process.state !== "running") return;
    const mark = (type: "paused" | "resumed"): void =>
      this.#deps.record({ type, at: this.#deps.timeline.now, client: this.name });
    mark("paused");
    await new Promise<void>((resolve) => this.process.pause(ms, resolve));
    mark("resumed");
  }

  /** Until it can be asked: what an ask may take does not count the opening. */
  async #open(): Promise<void> {
    if (!this.#deps.opens) return;
    while (!(await this.locks.inspect("k0").then(ignoreTrue, isClosed))) await this.#sleep(50);
  }

  async #task(): Promise<void> {
    await this.#open();
    if (this.#deps.settings.kinds === "crowd") return this.#queueUp();
    await this.#sleep(this.#random.between(0, 100));
    while (this.#deps.timeline.now < this.#deps.endMs && !this.#isLeaving) {
      if (this.#usesCallbacks && this.#random.chance(0.5)) {
        await this.#use(this.#plan());
        await this.#sleep(this.#random.between(0, 60));
        continue;
      }
      const lease = await this.#acquire(this.#plan());
      if (lease !== null) {
        await this.#work(lease);
        if (this.#deps.settings.kinds === "nested") await this.#nest(lease);
        await this.#block();
        await this.#letGo(lease);
      }
      if (this.#random.chance(0.5)) await this.#sleep(this.#random.between(0, 60));
      else await this.process.yield();
    }
  }

  async #queueUp(): Promise<void> {
    const { settings } = this.#deps;
    const isFirst = this.name === "c1";
    if (!isFirst) await this.#sleep(this.#random.between(50, 1_000));
    const options = { ttl: settings.ttlMs, wait: Number.POSITIVE_INFINITY };
    const lease = await this.#acquire({ keys: ["k0"], options, tries: false });
    if (lease === null) return;
    await this.#sleep(isFirst ? settings.lengthMs / 2 : this.#random.between(0, 2));
    await this.#letGo(lease);
  }

  /** Wants the other key while it holds this one. */
  async #nest(within: Lease): Promise<void> {
    const other = within.key === "k0" ? "k1" : "k0";
    const { options } = this.#plan();
    const lease = await this.#acquire({ keys: [other], options, tries: false, within });
    if (lease === null) return;
    await this.#work(lease);
    await this.#letGo(lease);
  }

  #plan(): Plan {
    const { settings } = this.#deps;
    const random = this.#random;
    const key = `k${Math.floor(random.next() * (settings.kinds === "nested" ? 2 : settings.keys))}`;
    const several = settings.kinds === "several" && random.chance(0.4);
    const options = {
      ttl: settings.ttlMs,
      wait: random.pick([0, 100, 1_000, 5_000]),
      ...(settings.kinds === "readers" && random.chance(0.7) ? { mode: "shared" as const } : {}),
      ...(settings.kinds === "semaphore" ? this.#permits(random.pick([1, 1, 2, 3])) : {}),
      ...(random.chance(0.1) ? { renew: false } : {}),
      ...(random.chance(0.05) ? { maxHold: settings.ttlMs * 2 } : {}),
      ...(settings.siblings === true && settings.kinds !== "nested" ? { reentrant: true } : {}),
    };
    return { keys: several ? ["k0", "k1"] : [key], options, tries: random.chance(0.15) };
  }

  /** Most name one limit, some another, as in a rolling deployment, and some take the key as a lock. */
  #permits(permits: number): Pick<AcquireOptions, "limit" | "permits"> {
    if (this.#asks % 7 === 6) return {};
    return { limit: this.#asks % 5 === 4 ? 5 : 3, permits };
  }

  /** Records the question, and returns its name. */
  #ask({ keys, options, tries, within }: Plan, callback = false): string {
    const { record, timeline } = this.#deps;
    this.#asks += 1;
    const ask = `${this.name}/${this.#asks}`;
    const { mode = "exclusive", limit = 1, permits = 1 } = options;
    const waitMs = tries ? 0 : options.wait / this.process.rate;
    record({
      type: "ask",
      at: timeline.now,
      client: this.name,
      ask,
      keys,
      mode,
      permits,
      limit,
      ttlMs: options.ttl,
      waitMs,
      ...(within === undefined ? {} : { within: nameOf(within) }),
      ...(callback ? { callback } : {}),
    });
    return ask;
  }

  async #acquire(plan: Plan): Promise<Lease | null> {
    const { keys, options: asked, tries, within } = plan;
    const options = within === undefined ? asked : { ...asked, within };
    const { record, timeline } = this.#deps;
    const ask = this.#ask(plan);
    try {
      const lease = await (tries ? this.locks.tryAcquire(keys, options) : this.locks.acquire(keys, options));
      if (lease === null) {
        record({ type: "refused", at: timeline.now, client: this.name, ask, code: "busy" });
        return null;
      }
      const fences = fencesOf(lease);
      const remainingMs = lease.remaining / this.process.rate;
      record({
        type: "granted",
        at: timeline.now,
        client: this.name,
        ask,
        lease: nameOf(lease),
        fences,
        remainingMs,
      });
      this.#leases.add(lease);
      return lease;
    } catch (error) {
      if (!LockError.is(error)) throw error;
      record({ type: "refused", at: timeline.now, client: this.name, ask, code: error.code });
      return null;
    }
  }

  /** As a task with a lease of its own, in a callback of `using`. */
  async #use({ keys, options }: Plan): Promise<void> {
    const { record, timeline } = this.#deps;
    const client = this.name;
    const ask = this.#ask({ keys, options, tries: false }, true);
    let name: string | null = null;
    const mark = (type: "notified" | "letting-go", lease: string): void =>
      record({ type, at: timeline.now, client, lease });
    try {
      await this.locks.using(keys, options, async (lease) => {
        const own = nameOf(lease);
        name = own;
        const remainingMs = lease.remaining / this.process.rate;
        record({
          type: "granted",
          at: timeline.now,
          client,
          ask,
          lease: own,
          fences: fencesOf(lease),
          remainingMs,
        });
        this.#leases.add(lease);
        lease.signal.addEventListener("abort", () => mark("notified", own));
        await this.#work(lease);
        await this.#block();
        this.#leases.delete(lease);
        mark("letting-go", own);
      });
      record({ type: "released", at: timeline.now, client, lease: String(name), answer: true });
    } catch (error) {
      if (!LockError.is(error)) throw error;
      if (name === null) record({ type: "refused", at: timeline.now, client, ask, code: error.code });
      else record({ type: "released", at: timeline.now, client, lease: name, answer: null });
    }
  }

  /** Reads, works a while and writes, under guard and without; sometimes stalls, extends or verifies. */
  async #work(lease: Lease): Promise<void> {
    const random = this.#random;
    const key = lease.key;
    const fence = lease.fenceOf(key);
    const exclusive = lease.mode === "exclusive" && this.#deps.settings.kinds !== "semaphore";
    if (exclusive && random.chance(0.7)) {
      const guarded = random.chance(0.7);
      const read = await this.#touch(lease, key, fence, guarded, null);
      await this.#sleep(random.between(0, 30));
      if (read !== null) await this.#touch(lease, key, fence, guarded, read + 1);
    }
    if (random.chance(0.1)) await lease.extend(random.pick([this.#deps.settings.ttlMs, 2_000])).catch(ignore);
    if (random.chance(0.1)) await lease.verify().catch(ignore);
    await this.#sleep(random.pick([0, 0, 5, 50, 300, 1_500]) * random.next());
  }

  /** A message to the resource and its answer; null when it refused or the lease was over. */
  #touch(
    lease: Lease,
    key: string,
    fence: bigint,
    guarded: boolean,
    write: number | null,
  ): Promise<number | null> {
    const { network, resource } = this.#deps;
    if (!lease.held) return Promise.resolve(null);
    return new Promise((resolve) => {
      const giveUp = this.process.after(500, () => resolve(null));
      network.send(this.name, resource.name, () => {
        const before = resource.touch({ client: this.name, key, fence, guarded, write });
        network.send(resource.name, this.name, () =>
          this.process.happens(() => {
            giveUp();
            resolve(before);
          }),
        );
      });
    });
  }

  async #letGo(lease: Lease): Promise<void> {
    const { record, timeline } = this.#deps;
    const name = nameOf(lease);
    this.#leases.delete(lease);
    // Without a look at `held` first: most users do not look either.
    record({ type: "letting-go", at: timeline.now, client: this.name, lease: name });
    const answer = await lease.release().catch(() => null);
    record({ type: "released", at: timeline.now, client: this.name, lease: name, answer });
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.process.after(ms, resolve);
    });
  }
}

function nameOf(lease: Lease): string {
  return `${lease.key}@${lease.fenceOf(lease.key)}`;
}

/** As many as it has: a lease that lacks one is for the checkers to see. */
function fencesOf(lease: Lease): string[] {
  return lease.keys.flatMap((key) => {
    try {
      return [String(lease.fenceOf(key))];
    } catch {
      return [];
    }
  });
}

function ignoreTrue(): boolean {
  return true;
}

function isClosed(error: unknown): boolean {
  return LockError.is(error) && error.code === "ERR_LOCK_ABORTED";
}

function ignore(): void {
  // An extension or verification that fails is the lease's own affair.
}

function scopeKey(client: string): string {
  return `scope of ${client}`;
}
