// Several faults in turn in one run, those that matter most on every store and a few that the seed chooses: what a short pass can
// have. Those that may break exclusion strike last, so that until then it is held against the store.

import type { Random } from "../../sim/world/random.ts";
import { markOf, nothing, type Plugin, type Run } from "./plugin.ts";

/** Each of those that leave exclusion whole strikes so often before the first that may not. */
const ROUNDS = 2;

export interface Mix {
  readonly safe: readonly Plugin[];
  /** They leave the resource to the fence. */
  readonly fenced: readonly Plugin[];
}

export function mixed({ safe, fenced }: Mix): Plugin {
  const parts = [...safe, ...fenced];
  const missing = new Set(parts);
  let due: Plugin[] | null = null;
  return {
    name: "mixed",
    everyMs: [200, 500],
    parts,
    owes: () => missing.size > 0,
    async start(run: Run): Promise<void> {
      for (const part of parts) await part.start(run);
    },
    async strike(run: Run, random: Random): Promise<void> {
      due ??= [
        ...Array.from({ length: ROUNDS }, () => shuffled(safe, random)).flat(),
        ...shuffled(fenced, random),
      ];
      const part = due.shift() ?? random.pick(missing.size > 0 ? [...missing] : parts);
      let struck = false;
      const mark = (what: string): void => {
        struck = true;
        run.mark(markOf(part, what));
      };
      await part.strike({ ...run, mark }, random);
      if (struck) missing.delete(part);
    },
    async stop(run: Run): Promise<void> {
      await Promise.all(parts.map((part) => part.stop(run)));
    },
    async end(): Promise<void> {
      await Promise.all(parts.map((part) => part.end?.() ?? nothing()));
    },
  };
}

export function shuffled<T>(all: readonly T[], random: Random): T[] {
  const left = [...all];
  const order: T[] = [];
  while (left.length > 0) order.push(...left.splice(Math.floor(random.next() * left.length), 1));
  return order;
}
