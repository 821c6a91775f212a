// The context of a case at the level `api`: locks over the store under test, unused keys, and real time.

import { createLocks, type Guarantees, LockLostError, type Locks, type LocksOptions } from "../index.ts";
import { nodeSystem } from "../system/node.ts";
import type { Subject } from "./case.ts";
import { waitFor, sleep, USUAL_WAIT_MS } from "./io.ts";
import { StallMeter } from "./stall-meter.ts";

const SLACK_MS = 2_000;
const WAIT_STARTS_MS = 50;

/** What a case at the level `api` works with. */
export class ApiContext {
  readonly guarantees: Guarantees;
  readonly namespace: string = `t-${nodeSystem.randomId().slice(0, 12)}`;
  protected readonly subject: Subject;
  readonly #made = new Set<Locks>();
  readonly #meter = new StallMeter();
  #keys = 0;

  constructor(subject: Subject) {
    this.subject = subject;
    this.guarantees = subject.guarantees;
  }

  /** Makes `Locks` with a store of their own, as another process has. */
  async locks(options: LocksOptions = {}): Promise<Locks> {
    const store = await this.subject.create();
    const locks = createLocks(store, { namespace: this.namespace, wait: USUAL_WAIT_MS, ...options });
    this.#made.add(locks);
    return locks;
  }

  key(name = "key"): string {
    this.#keys += 1;
    return `${name}-${this.#keys}`;
  }

  /**
   * The tolerance of a time bound: ten times what an idle machine needs, and the time for which the
   * machine has stalled since the case began. Read it after measuring the time.
   */
  get slackMs(): number {
    return SLACK_MS + this.stalledMs;
  }

  /** How long the machine stalled since the case began. */
  get stalledMs(): number {
    return this.#meter.stalledMs();
  }

  /**
   * Resolves when `count` calls wait for a held key. For a store that does not know its waiters, it only
   * sleeps.
   */
  async untilWaiting(locks: Locks, key: string, count = 1): Promise<void> {
    const waiters = async (): Promise<number> => (await locks.inspect(key))?.waiters?.length ?? count;
    await waitFor(`wait number ${count} for ${key}`, async () => (await waiters()) >= count);
    await sleep(WAIT_STARTS_MS);
  }

  /**
   * Runs a section. If the section loses its lease while the machine stalls for about a claim window,
   * runs it again, because such a loss follows the rules. Any other loss is a failure.
   */
  async unlessStalled<T>(section: () => Promise<T>): Promise<T> {
    for (;;) {
      const meter = new StallMeter();
      try {
        return await section();
      } catch (error) {
        const isExcused = error instanceof LockLostError && meter.stalledMs() > this.guarantees.claimMs / 2;
        if (!isExcused) throw error;
      }
    }
  }

  nowMs(): number {
    return nodeSystem.monoMs();
  }

  async end(): Promise<void> {
    await Promise.all([...this.#made].map((locks) => locks.close({ drain: 0 })));
  }
}
