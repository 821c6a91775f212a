// Who waits for whom, and whether anything could ever change. Pure: no clock, no store.
//
// 1. A record is one holder of one key. It waits for what its note says; one without a note may be let go of at any time.
// 2. Everybody who waits is taken to be stuck. Whoever could go on if all that are not stuck let go is not; repeated until
//    nothing changes. An exclusive wait is stuck behind one stuck holder, one for permits only when too few can come back.
// 3. Of those who are stuck some wait for each other in circles: the knots. Whoever merely stands behind a knot is none of it.

import type { Mode } from "./store.ts";

export interface GraphWait {
  readonly mode: Mode;
  readonly permits: number;
  readonly limit: number;
  /** Ids of keys; it needs all of them. */
  readonly on: readonly string[];
}

export interface GraphRecord {
  /** Unique in the graph. */
  readonly id: string;
  readonly key: string;
  readonly label: string;
  readonly fence: bigint;
  readonly mode: Mode;
  readonly permits: number;
  readonly waits: readonly GraphWait[];
  /** The number that its note was last repeated with. */
  readonly said: number;
}

export interface GraphKey {
  readonly holders: readonly GraphRecord[];
  /** Whether a writer stands in line, behind which readers wait too. */
  readonly writerWaits: boolean;
}

export class WaitGraph {
  readonly #keys: ReadonlyMap<string, GraphKey>;
  readonly #stuck = new Set<GraphRecord>();
  readonly #next = new Map<GraphRecord, GraphRecord[]>();

  constructor(keys: ReadonlyMap<string, GraphKey>) {
    this.#keys = keys;
    for (const { holders } of keys.values()) {
      for (const record of holders) if (record.waits.length > 0) this.#stuck.add(record);
    }
    for (let freed = true; freed;) {
      freed = false;
      for (const record of this.#stuck) {
        if (record.waits.some((wait) => this.blockers(wait).length > 0)) continue;
        this.#stuck.delete(record);
        freed = true;
      }
    }
    for (const record of this.#stuck) {
      const next = new Set(record.waits.flatMap((wait) => this.blockers(wait)));
      next.delete(record);
      this.#next.set(record, [...next]);
    }
  }

  /** The stuck holders that a wait can never get past; none when it may still be granted. */
  blockers(wait: GraphWait): GraphRecord[] {
    return wait.on.flatMap((id) => {
      const key = this.#keys.get(id);
      if (key === undefined) return [];
      const stuck = key.holders.filter((holder) => this.#stuck.has(holder));
      if (wait.limit > 1) {
        const permits = stuck.reduce((sum, holder) => sum + holder.permits, 0);
        return permits > wait.limit - wait.permits ? stuck : [];
      }
      if (wait.mode === "exclusive" || key.writerWaits) return stuck;
      return stuck.filter((holder) => holder.mode === "exclusive");
    });
  }

  /** The records that wait for each other in circles, each circle with all that hangs together with it. */
  knots(): GraphRecord[][] {
    const before = new Map<GraphRecord, GraphRecord[]>();
    for (const [record, next] of this.#next) {
      for (const one of next) before.set(one, [...(before.get(one) ?? []), record]);
    }
    const left = new Set(finishOrder(this.#next));
    const knots: GraphRecord[][] = [];
    // The last to be finished reaches all that were finished before it: who reaches it too is in its knot.
    for (const record of [...left].reverse()) {
      if (!left.has(record)) continue;
      const knot = reach(record, before, left);
      for (const one of knot) left.delete(one);
      if (knot.length > 1) knots.push(knot);
    }
    return knots;
  }

  /** The shortest way from a record of a knot back to itself, starting with it. */
  cycle(start: GraphRecord, knot: readonly GraphRecord[]): GraphRecord[] {
    const from = new Map<GraphRecord, GraphRecord>();
    const line = [start];
    for (const record of line) {
      for (const next of this.#next.get(record) ?? []) {
        if (next === start) return [start, ...wayBack(record, start, from)];
        if (!knot.includes(next) || from.has(next)) continue;
        from.set(next, record);
        line.push(next);
      }
    }
    return [start];
  }
}

function wayBack(
  end: GraphRecord,
  start: GraphRecord,
  from: ReadonlyMap<GraphRecord, GraphRecord>,
): GraphRecord[] {
  const way: GraphRecord[] = [];
  for (let record = end; record !== start; record = from.get(record) as GraphRecord) way.unshift(record);
  return way;
}

/** All records, each after those that it leads to and that were not on the way to it. */
function finishOrder(next: ReadonlyMap<GraphRecord, readonly GraphRecord[]>): GraphRecord[] {
  const seen = new Set<GraphRecord>();
  const finished: GraphRecord[] = [];
  for (const root of next.keys()) {
    if (seen.has(root)) continue;
    seen.add(root);
    const stack = [{ record: root, at: 0 }];
    for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
      const child = next.get(top.record)?.[top.at];
      top.at += 1;
      if (child === undefined) {
        finished.push(top.record);
        stack.pop();
      } else if (!seen.has(child)) {
        seen.add(child);
        stack.push({ record: child, at: 0 });
      }
    }
  }
  return finished;
}

function reach(
  start: GraphRecord,
  steps: ReadonlyMap<GraphRecord, readonly GraphRecord[]>,
  among: ReadonlySet<GraphRecord>,
): GraphRecord[] {
  const found = new Set([start]);
  for (const record of found) {
    for (const next of steps.get(record) ?? []) if (among.has(next)) found.add(next);
  }
  return [...found];
}

/** Of two records the one that was granted later; all who see a knot agree on it. */
export function youngest(knot: readonly GraphRecord[]): GraphRecord {
  return knot.reduce((best, record) => {
    if (record.fence !== best.fence) return record.fence > best.fence ? record : best;
    return record.key > best.key ? record : best;
  });
}
