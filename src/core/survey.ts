// The two ways to draw the graph of who waits for whom: from what this process knows of itself, without asking anybody, and from
// the records and notes in the stores, as every other process sees them too.

import type { Caller } from "./call.ts";
import type { Hold } from "./hold.ts";
import type { HeldLease } from "./lease.ts";
import type { HolderInfo, LockInfo, OpenStore } from "./store.ts";
import type { Task } from "./task.ts";
import { type GraphKey, type GraphRecord, type GraphWait, WaitGraph } from "./wait-graph.ts";
import { readNote, type Wait, type WaitNote } from "./waits.ts";

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

/** A task that waits while its actor holds something. */
export interface Watch {
  readonly task: Task;
  readonly place: WaitPlace;
  /** What it holds meanwhile. */
  sections: readonly HeldLease[];
  /** The fences of those who hold what it wants, as last seen. */
  seen: readonly bigint[];
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

/** The keys that a task really waits for: a lock that a sibling of the same scope holds will be let go of by the sibling. */
export function wantedKeys({ task, place, sections }: Watch): readonly string[] {
  if (task.wish.limit > 1) return task.keys;
  const own = sections.filter((section) => (section.owner as unknown) === place);
  return task.keys.filter((key) => !own.some((section) => section.keys.includes(key)));
}

export function waitOf(places: Places, watch: Watch): GraphWait {
  const { mode, permits, limit } = watch.task.wish;
  return { mode, permits, limit, on: wantedKeys(watch).map((key) => places.idOf(watch.place, key)) };
}

/** What this process knows: exact, but only of itself. */
export function ownGraph(places: Places, watches: readonly Watch[]): WaitGraph {
  const keys = new Map<string, GraphKey>();
  for (const place of new Set(watches.map((watch) => watch.place))) {
    const wanted = new Set(watches.filter((one) => one.place === place).flatMap((one) => wantedKeys(one)));
    const holders = new Map<string, GraphRecord[]>();
    for (const hold of place.held()) {
      for (const key of hold.request.keys) {
        if (!wanted.has(key) || hold.lease === null || hold.lease.sectionMs === 0) continue;
        const record = ownRecord(places, watches, hold.lease, key, places.idOf(place, key));
        holders.set(key, [...(holders.get(key) ?? []), record]);
      }
    }
    for (const [key, records] of holders) {
      keys.set(places.idOf(place, key), { holders: records, writerWaits: false });
    }
  }
  return new WaitGraph(keys);
}

function ownRecord(
  places: Places,
  watches: readonly Watch[],
  lease: HeldLease,
  key: string,
  id: string,
): GraphRecord {
  const fence = lease.fenceOf(key);
  const { label, mode, wish } = lease;
  const waits = watches.filter((one) => one.sections.includes(lease)).map((one) => waitOf(places, one));
  return { id: `${id}:${fence}`, key, label, fence, mode, permits: wish.permits, waits, said: 0 };
}

/** What the stores say, from the keys that are wanted here as far as the notes lead. Rejects when a store cannot be asked. */
export async function storeGraph(places: Places, watches: readonly Watch[]): Promise<WaitGraph> {
  const looked = new Map<string, LockInfo | null>();
  let next = new Map<string, { readonly place: WaitPlace; readonly key: string }>();
  const want = (place: WaitPlace, key: string): void => {
    const id = places.idOf(place, key);
    if (!looked.has(id) && looked.size + next.size < MAX_KEYS) next.set(id, { place, key });
  };
  for (const watch of watches) for (const key of wantedKeys(watch)) want(watch.place, key);
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
    const holders = info.holders.map((holder): GraphRecord => {
      const { label, fence, mode, permits } = holder;
      const note = noteOf(holder);
      const waits = note.waits.map((wait): GraphWait => {
        const on = wait.seen === undefined ? here(places, place, wait) : elsewhere(places, wait, looked);
        return { mode: wait.mode, permits: wait.permits, limit: wait.limit, on };
      });
      return { id: `${id}:${fence}`, key: info.key, label, fence, mode, permits, waits, said: note.said };
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
  return wantedKeys(watch).flatMap((key) => {
    const info = looked.get(places.idOf(watch.place, key));
    return info?.holders.map((holder) => holder.fence) ?? [];
  });
}

function look(place: WaitPlace, key: string): Promise<LockInfo | null> {
  return place.caller.call("inspection", key, LOOK_MS, (io) => place.store.inspect(key, io));
}
