// The two ways to draw the graph of who waits for whom: from what this process knows of itself, without asking anybody, and from
// the records and notes in the stores, as every other process sees them too.

import type { Caller } from "../util/store-call.ts";
import type { Hold } from "../lease/hold.ts";
import type { HeldLease } from "../lease/lease.ts";
import type { HolderInfo, LockInfo, OpenStore } from "../store.ts";
import type { Waiter } from "../acquire/waiter.ts";
import { type GraphKey, type GraphRecord, type GraphWait, WaitGraph } from "./wait-graph.ts";
import { readNote, type Wait, type WaitNote } from "./wait-note.ts";

const LOOK_MS = 2_000;
/** A graph that is larger is not followed further: what lies beyond is not seen. */
const MAX_KEYS = 256;
const NO_NOTE: WaitNote = { waits: [], said: 0 };

/** One open store, as the graph needs it. */
export interface WaitPlace {
  readonly store: OpenStore;
  readonly caller: Caller;
  held(): readonly Hold[];
}

/** A task that waits while its actor, or a scope around it, holds something. */
export interface Watch {
  readonly waiter: Waiter;
  readonly place: WaitPlace;
  /**
   * What is held meanwhile. Calls nested in a scope are new actors, so this never grows while the waiter
   * waits.
   */
  readonly sections: readonly HeldLease[];
  /** The fences of those who hold what it wants, as last seen. */
  seen: readonly bigint[];
}

/** The tasks that wait, by the leases that are held meanwhile. */
export class Watches {
  readonly #all = new Set<Watch>();
  readonly #byLease = new Map<HeldLease, Set<Watch>>();

  get size(): number {
    return this.#all.size;
  }

  [Symbol.iterator](): IterableIterator<Watch> {
    return this.#all.values();
  }

  add(watch: Watch): void {
    this.#all.add(watch);
    for (const lease of watch.sections) {
      const waiting = this.#byLease.get(lease);
      if (waiting === undefined) this.#byLease.set(lease, new Set([watch]));
      else waiting.add(watch);
    }
  }

  /** Returns the leases during which no waiter waits any more, or null if the waiter was not watched. */
  delete(watch: Watch): HeldLease[] | null {
    if (!this.#all.delete(watch)) return null;
    return watch.sections.filter((lease) => {
      const waiting = this.#byLease.get(lease);
      waiting?.delete(watch);
      return waiting?.size === 0 && this.#byLease.delete(lease);
    });
  }

  /** The leases that are certainly held, each with the tasks that wait meanwhile. */
  *held(): Generator<readonly [HeldLease, ReadonlySet<Watch>]> {
    for (const entry of this.#byLease) if (entry[0].leftMs > 0) yield entry;
  }

  of(lease: HeldLease): ReadonlySet<Watch> {
    return this.#byLease.get(lease) ?? new Set();
  }
}

/** Numbers for the stores of this process: keys of different stores have nothing to do with each other. */
export class Places {
  readonly #all: WaitPlace[] = [];
  readonly #numbers = new Map<WaitPlace, number>();
  #made = 0;

  get all(): readonly WaitPlace[] {
    return this.#all;
  }

  add(place: WaitPlace): void {
    this.#made += 1;
    this.#numbers.set(place, this.#made);
    this.#all.push(place);
  }

  delete(place: WaitPlace): void {
    this.#numbers.delete(place);
    const at = this.#all.indexOf(place);
    if (at !== -1) this.#all.splice(at, 1);
  }

  idOf(place: WaitPlace, key: string): string {
    return `${this.#numbers.get(place)}:${key}`;
  }
}

export function waitOf(places: Places, { waiter, place }: Watch): GraphWait {
  const { mode, permits, limit } = waiter.spec;
  return { mode, permits, limit, on: waiter.keys.map((key) => places.idOf(place, key)) };
}

/** Tasks with the same signature wait for the same, so that one of them stands for all. */
export function signatureOf({ waiter, place }: Watch, places: Places): string {
  const { mode, permits, limit } = waiter.spec;
  return JSON.stringify([places.idOf(place, ""), mode, permits, limit, ...waiter.keys]);
}

/** What this process knows: exact, but only of itself. */
export function ownGraph(
  places: Places,
  watches: Watches,
): { readonly graph: WaitGraph; readonly steps: number } {
  const keys = new Map<string, { readonly holders: GraphRecord[]; readonly writerWaits: boolean }>();
  const [waitsOf, steps] = ownWaits(places, watches);
  for (const watch of watches) {
    for (const id of waitOf(places, watch).on) keys.set(id, { holders: [], writerWaits: false });
  }
  for (const place of new Set([...watches].map((watch) => watch.place))) {
    for (const { lease, request } of place.held()) {
      if (lease === null || lease.leftMs === 0) continue;
      for (const key of request.keys) {
        const id = places.idOf(place, key);
        keys.get(id)?.holders.push(ownRecord(lease, key, id, waitsOf.get(lease) ?? []));
      }
    }
  }
  return { graph: new WaitGraph(keys), steps };
}

/**
 * What is waited for while each lease is held, without repetition; and how many tasks were looked at for
 * it.
 */
function ownWaits(places: Places, watches: Watches): [Map<HeldLease, GraphWait[]>, number] {
  const waits = new Map<string, GraphWait>();
  const signatures = new Map<Watch, string>();
  for (const watch of watches) {
    if (!watch.waiter.pending) continue;
    const signature = signatureOf(watch, places);
    signatures.set(watch, signature);
    if (!waits.has(signature)) waits.set(signature, waitOf(places, watch));
  }
  let steps = watches.size;
  const waitsOf = new Map<HeldLease, GraphWait[]>();
  for (const [lease, waiting] of watches.held()) {
    steps += waiting.size;
    const own = new Set<string>();
    for (const watch of waiting) {
      const signature = signatures.get(watch);
      if (signature !== undefined) own.add(signature);
    }
    waitsOf.set(
      lease,
      [...own].map((signature) => waits.get(signature) as GraphWait),
    );
  }
  return [waitsOf, steps];
}

function ownRecord(lease: HeldLease, key: string, id: string, waits: readonly GraphWait[]): GraphRecord {
  const fence = lease.fenceOf(key);
  const { label, mode, spec } = lease;
  return {
    id: `${id}:${fence}`,
    key,
    label,
    fence,
    mode,
    permits: spec.permits,
    limit: spec.limit,
    waits,
    said: 0,
  };
}

/** What the stores say, from the keys that are wanted here as far as the notes lead. Rejects when a store cannot be asked. */
export async function storeGraph(places: Places, watches: Watches): Promise<WaitGraph> {
  const looked = new Map<string, LockInfo | null>();
  let next = new Map<string, { readonly place: WaitPlace; readonly key: string }>();
  const want = (place: WaitPlace, key: string): void => {
    const id = places.idOf(place, key);
    if (!looked.has(id) && looked.size + next.size < MAX_KEYS) next.set(id, { place, key });
  };
  for (const { waiter, place } of watches) for (const key of waiter.keys) want(place, key);
  const noted: { readonly place: WaitPlace; readonly info: LockInfo }[] = [];
  while (next.size > 0) {
    const step = [...next];
    next = new Map();
    const infos = await Promise.all(step.map(([, { place, key }]) => look(place, key)));
    step.forEach(([id, { place }], i) => {
      const info = infos[i] ?? null;
      looked.set(id, info);
      if (info !== null) noted.push({ place, info });
      for (const wait of (info?.holders ?? []).flatMap((holder) => noteOf(holder).waits)) {
        for (const there of wait.seen === undefined ? [place] : places.all) {
          for (const key of wait.keys) want(there, key);
        }
      }
    });
  }
  for (const watch of watches) watch.seen = fencesOf(places, watch, looked);
  return new WaitGraph(draw(places, noted, looked));
}

function draw(
  places: Places,
  noted: readonly { readonly place: WaitPlace; readonly info: LockInfo }[],
  looked: ReadonlyMap<string, LockInfo | null>,
): Map<string, GraphKey> {
  const keys = new Map<string, GraphKey>();
  for (const { place, info } of noted) {
    // A key that nobody waits for any more blocks nobody: the note of one that died is older than its place in line.
    if (info.waiters !== null && info.waiters.length === 0) continue;
    const id = places.idOf(place, info.key);
    // `limit` is the largest that anybody names. Beside readers it is a waiter's; else a lock counts as a
    // semaphore.
    const limit = info.holders.some(({ mode }) => mode === "shared") ? 1 : info.limit;
    const holders = info.holders.map((holder): GraphRecord => {
      const { label, fence, mode, permits } = holder;
      const note = noteOf(holder);
      const waits = note.waits.map((wait): GraphWait => {
        const on = wait.seen === undefined ? here(places, place, wait) : elsewhere(places, wait, looked);
        return { mode: wait.mode, permits: wait.permits, limit: wait.limit, on };
      });
      return {
        id: `${id}:${fence}`,
        key: info.key,
        label,
        fence,
        mode,
        permits,
        limit,
        waits,
        said: note.said,
      };
    });
    const writerWaits = info.waiters?.some((waiter) => waiter.mode === "exclusive") ?? false;
    keys.set(id, { holders, writerWaits });
  }
  return keys;
}

function here(places: Places, place: WaitPlace, wait: Wait): string[] {
  return wait.keys.map((key) => places.idOf(place, key));
}

/** The keys of other stores that are meant: those that are held with a fence that the waiter has seen there. */
function elsewhere(places: Places, wait: Wait, looked: ReadonlyMap<string, LockInfo | null>): string[] {
  return places.all.flatMap((place) =>
    here(places, place, wait).filter((id) =>
      looked.get(id)?.holders.some((holder) => wait.seen?.includes(holder.fence)),
    ),
  );
}

function noteOf(holder: HolderInfo): WaitNote {
  // One that is kept or was revoked ends by itself.
  const ends = holder.kept === true || holder.revoked !== undefined;
  return holder.waitingFor === undefined || ends ? NO_NOTE : readNote(holder.waitingFor);
}

function fencesOf(places: Places, watch: Watch, looked: ReadonlyMap<string, LockInfo | null>): bigint[] {
  return watch.waiter.keys.flatMap((key) => {
    const info = looked.get(places.idOf(watch.place, key));
    return info?.holders.map((holder) => holder.fence) ?? [];
  });
}

function look(place: WaitPlace, key: string): Promise<LockInfo | null> {
  return place.caller.call("inspection", key, LOOK_MS, (io) => place.store.inspect(key, io));
}
