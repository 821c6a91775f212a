// The tasks of one client: they ask, work on the registers, renew and let go as users do, and write down every step.

import { setTimeout as sleep } from "node:timers/promises";
import { type Kind, LockError, type Locks } from "../../src/index.ts";
import type { Random } from "../../sim/world/random.ts";
import { type Journal, nowMs } from "../journal.ts";
import type { BeliefsBook, ClientLease } from "./beliefs-book.ts";
import { type Plan, plan } from "./plan.ts";
import type { ResourceLink } from "./resource-link.ts";

const PROBE_AGAIN_MS = 100;

/** What a client uses of `Locks`; a planted defect stands in its place. */
export interface ClientLocks extends Pick<Locks, "on" | "close"> {
  acquire(keys: readonly string[], options: Plan["options"] & { signal: AbortSignal }): Promise<ClientLease>;
  tryAcquire(keys: readonly string[], options: Plan["options"]): Promise<ClientLease | null>;
  using(
    keys: readonly string[],
    options: Plan["options"] & { signal: AbortSignal },
    fn: (lease: ClientLease) => Promise<void>,
  ): Promise<void>;
}

export interface WorkerDeps {
  readonly name: string;
  readonly locks: ClientLocks;
  readonly journal: Journal;
  readonly book: BeliefsBook;
  readonly resource: ResourceLink;
  readonly random: Random;
  /** Of locks that the store has. */
  readonly kinds: readonly Kind[];
  /** Aborts when tasks are to end. */
  readonly finish: AbortSignal;
}

export class Worker {
  readonly #deps: WorkerDeps;
  #asks = 0;

  constructor(deps: WorkerDeps) {
    this.#deps = deps;
  }

  async task(): Promise<void> {
    const { random, finish, kinds } = this.#deps;
    while (!finish.aborted) {
      await this.once(plan(random, kinds));
      await this.#sleep(random.between(0, 25));
    }
  }

  /** Asks again while the store cannot be reached, as on a busy machine it may be for a moment without any fault. */
  async probe(planned: Plan): Promise<void> {
    const endMs = nowMs() + planned.options.wait;
    while (!(await this.once(planned)) && nowMs() < endMs) await this.#sleep(PROBE_AGAIN_MS);
  }

  /** Whether it was granted. */
  async once(planned: Plan): Promise<boolean> {
    const ask = this.#ask(planned);
    if (planned.scoped) return this.#inCallback(ask, planned);
    const { book } = this.#deps;
    const lease = await this.#acquire(ask, planned);
    if (lease === null || !book.granted(ask, planned.keys, lease)) return false;
    await this.#work(lease, planned);
    book.lettingGo(lease);
    book.released(lease, await lease.release().catch(() => null));
    return true;
  }

  #ask({ keys, options, tries, scoped }: Plan): string {
    const { name: client, journal } = this.#deps;
    this.#asks += 1;
    const ask = `${client}/${this.#asks}`;
    const { mode = "exclusive", limit = 1, permits = 1, ttl: ttlMs } = options;
    const waitMs = tries ? 0 : options.wait;
    const asked = { client, ask, keys, mode, permits, limit, ttlMs, waitMs };
    journal.write({ type: "ask", at: nowMs(), ...asked, ...(scoped ? { callback: true } : {}) });
    return ask;
  }

  async #acquire(ask: string, { keys, options, tries }: Plan): Promise<ClientLease | null> {
    const { name: client, journal, locks, finish } = this.#deps;
    try {
      if (!tries) return await locks.acquire(keys, { ...options, signal: finish });
      const lease = await locks.tryAcquire(keys, options);
      if (lease === null) journal.write({ type: "refused", at: nowMs(), client, ask, code: "busy" });
      return lease;
    } catch (error) {
      this.#refused(ask, error);
      return null;
    }
  }

  /** `using` does not tell how its release ended. */
  async #inCallback(ask: string, planned: Plan): Promise<boolean> {
    const { book, locks, finish } = this.#deps;
    let lease: ClientLease | null = null;
    let granted = false;
    const work = async (given: ClientLease): Promise<void> => {
      lease = given;
      granted = book.granted(ask, planned.keys, given);
      if (!granted) return;
      await this.#work(given, planned);
      book.lettingGo(given);
    };
    try {
      await locks.using(planned.keys, { ...planned.options, signal: finish }, work);
    } catch (error) {
      // After the grant, an error tells of a lost lease, which its signal has told already.
      if (lease === null) this.#refused(ask, error);
    }
    if (granted && lease !== null) book.released(lease, null);
    return granted;
  }

  #refused(ask: string, error: unknown): void {
    const { name: client, journal } = this.#deps;
    const at = nowMs();
    const code = LockError.is(error) ? error.code : "unnamed";
    if (code === "unnamed")
      journal.write({ type: "unnamed-error", at, client, what: `${ask}: ${String(error)}` });
    journal.write({ type: "refused", at, client, ask, code });
  }

  async #work(lease: ClientLease, { holdMs, touches, options }: Plan): Promise<void> {
    const { random } = this.#deps;
    if (touches && lease.held) await this.#add(lease);
    if (random.chance(0.1)) await lease.extend(options.ttl).catch(ignore);
    if (random.chance(0.1)) await lease.verify().catch(ignore);
    await this.#sleep(holdMs, lease.signal);
  }

  /** Reads, thinks and writes one more. Half of the writes trust the check before the read, as careless users do. */
  async #add(lease: ClientLease): Promise<void> {
    const { random, resource, name: client } = this.#deps;
    const { key } = lease;
    const touch = { client, key, fence: String(lease.fenceOf(key)), guarded: random.chance(0.7) };
    const careless = random.chance(0.5);
    const read = await resource.touch({ ...touch, write: null });
    await this.#sleep(random.next() * random.pick([20, 20, 20, 400]));
    if (read !== null && (careless || lease.held)) await resource.touch({ ...touch, write: read + 1 });
  }

  /** Ends early when the client is to finish or the lease is lost. */
  async #sleep(ms: number, lost?: AbortSignal): Promise<void> {
    const { finish } = this.#deps;
    const signal = lost === undefined ? finish : AbortSignal.any([finish, lost]);
    await sleep(ms, undefined, { signal }).catch(ignore);
  }
}

function ignore(): void {
  // A sleep that was cut short, or an extension that failed: the lease itself knows.
}
