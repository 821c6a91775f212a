// Walks through every state that a small model can reach, each once, and stops at the first that breaks a property. A model is a
// value and its next values; what it means is its own affair.

import { Random } from "../world/random.ts";

export interface Model<S> {
  readonly start: S;
  /** Every state that one step leads to, with what was done. */
  next(state: S): readonly Step<S>[];
  /** Equal for states that need not be told apart. */
  key(state: S): string;
}

export interface Step<S> {
  readonly name: string;
  readonly state: S;
  /** The property that this step has broken, in words. */
  readonly broken?: string;
}

export interface Exploration {
  readonly states: number;
  /** Whether there was nothing more to see. */
  readonly complete: boolean;
  readonly broken: string | null;
  /** The steps that led there. */
  readonly path: readonly string[];
}

/** Breadth first, so that the path to a mistake is a shortest one. */
export function explore<S>(model: Model<S>, limit: number): Exploration {
  const seen = new Set([model.key(model.start)]);
  const from = [-1];
  const by = [""];
  const pathTo = (last: number): string[] => {
    const path: string[] = [];
    for (let at = last; at > 0; at = from[at] as number) path.unshift(by[at] as string);
    return path;
  };
  let layer: [number, S][] = [[0, model.start]];
  while (layer.length > 0) {
    const following: [number, S][] = [];
    for (const [at, state] of layer) {
      for (const step of model.next(state)) {
        if (step.broken !== undefined) {
          const path = [...pathTo(at), step.name];
          return { states: seen.size, complete: false, broken: step.broken, path };
        }
        const key = model.key(step.state);
        if (seen.has(key)) continue;
        if (seen.size >= limit) return { states: seen.size, complete: false, broken: null, path: [] };
        seen.add(key);
        following.push([from.length, step.state]);
        from.push(at);
        by.push(step.name);
      }
    }
    layer = following;
  }
  return { states: seen.size, complete: true, broken: null, path: [] };
}

/** Random walks, for models that are too large to be seen whole. The same seed walks the same ways. */
export function wander<S>(model: Model<S>, walks: number, seed: number): Exploration {
  const random = new Random(seed);
  let states = 0;
  for (let walk = 0; walk < walks; walk += 1) {
    const path: string[] = [];
    for (let steps = model.next(model.start); steps.length > 0;) {
      const step = random.pick(steps);
      path.push(step.name);
      states += 1;
      if (step.broken !== undefined) return { states, complete: false, broken: step.broken, path };
      steps = model.next(step.state);
    }
  }
  return { states, complete: false, broken: null, path: [] };
}
