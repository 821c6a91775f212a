// Load on one hot key over several opened stores, beside leases that are held all along: what each of them saw of an outage.

import type { Lease, Locks } from "../../../src/index.ts";
import { nodeSystem } from "../../../src/system/node.ts";

export interface Section {
  readonly fence: bigint;
  readonly atMs: number;
}

export class Load {
  readonly #key: string;
  readonly #tasks: Promise<void>[] = [];
  /** In the order in which they began. */
  readonly sections: Section[] = [];
  readonly errors: unknown[] = [];
  /** How often a section began while another one was running. */
  overlaps = 0;
  #inside = 0;
  #stopped = false;

  /** `tasks` for each of the stores. */
  constructor(locks: readonly Locks[], key: string, tasks: number) {
    this.#key = key;
    for (const one of locks) for (let i = 0; i < tasks; i += 1) this.#tasks.push(this.#work(one));
  }

  /** The first section that began after this moment. */
  async next(afterMs: number): Promise<Section> {
    for (;;) {
      const found = this.sections.find(({ atMs }) => atMs > afterMs);
      if (found !== undefined) return found;
      await pause(1);
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#tasks);
  }

  /** Every later section has the larger fence. */
  get fencesGrow(): boolean {
    return this.sections.every(
      ({ fence }, at) => at === 0 || fence > (this.sections[at - 1] as Section).fence,
    );
  }

  async #work(locks: Locks): Promise<void> {
    while (!this.#stopped) {
      try {
        await locks.using(this.#key, { wait: "150s", ttl: "2s" }, async (lease) => {
          this.sections.push({ fence: lease.fence, atMs: nodeSystem.monoMs() });
          if (this.#inside > 0) this.overlaps += 1;
          this.#inside += 1;
          await pause(1);
          this.#inside -= 1;
        });
      } catch (error) {
        this.errors.push(error);
        // Whatever it was, it must not be met in a circle.
        await pause(10);
      }
    }
  }
}

/** Leases that are held over the outage, and what became of them. */
export class Holders {
  readonly leases: readonly Lease[];

  private constructor(leases: readonly Lease[]) {
    this.leases = leases;
  }

  static async take(locks: readonly Locks[], count: number, name: string): Promise<Holders> {
    const taken = locks.flatMap((one, at) =>
      Array.from({ length: count }, (_none, i) => one.acquire(`${name} ${at} ${i}`, { ttl: "30s" })),
    );
    return new Holders(await Promise.all(taken));
  }

  /** Asks the store itself. A lease that the store does not know must have been told so. */
  async verdict(): Promise<{ readonly held: number; readonly lost: number; readonly wrong: number }> {
    const owned = await Promise.all(this.leases.map((lease) => lease.verify()));
    const lost = this.leases.filter(({ held, signal }) => !held && signal.aborted).length;
    const held = this.leases.filter((lease, at) => lease.held && owned[at] === true).length;
    return { held, lost, wrong: this.leases.length - held - lost };
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void nodeSystem.after(ms, resolve));
}
