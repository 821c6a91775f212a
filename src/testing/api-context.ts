// What a case at the level of the public API works with: locks over the store under test, fresh keys, real
// time.

import { createLocks, type Guarantees, LockLostError, type Locks, type LocksOptions } from "../index.ts";
import { nodeSystem } from "../system/node.ts";
import type { Subject } from "./case.ts";
import { arrives, sleep, USUAL_WAIT_MS } from "./io.ts";
import { StallMeter } from "./stall-meter.ts";

const SLACK_MS = 2_000;
const WAIT_STARTS_MS = 50;

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

  /** Locks with a store of their own, as another process would have them. */
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
   * What may be added to a bound: ten times what an idle machine needs, and the time in which the machine
   * stalled since the case began. Read it after the time was measured.
   */
  get slackMs(): number {
    return SLACK_MS + this.stalledMs;
  }

  /** How long the machine stalled since the case began. */
  get stalledMs(): number {
    return this.#meter.stalledMs();
  }

  /**
   * Until `count` others wait for a key that is held. A store that cannot tell who waits gets the time that
   * a start takes.
   */
  async untilWaiting(locks: Locks, key: string, count = 1): Promise<void> {
    const waiters = async (): Promise<number> => (await locks.inspect(key))?.waiters?.length ?? count;
    await arrives(`wait number ${count} for ${key}`, async () => (await waiters()) >= count);
    await sleep(WAIT_STARTS_MS);
  }

  /**
   * Runs a section, and runs it again when its lease was lost while the machine stalled for about a claim
   * window: a holder that gets no processor for so long loses its lease by the rules. Any other loss is a
   * failure.
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
