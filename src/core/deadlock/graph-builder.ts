// Builds the wait graph in two ways: from the tasks of this process, without asking a store, and from the
// records and notes in the stores, which all processes can read.

import type { Caller } from "../util/store-call.ts";
import type { Hold } from "../lease/hold.ts";
import type { HeldLease } from "../lease/lease.ts";
import type { HolderInfo, LockInfo, OpenStore } from "../store.ts";
import type { Waiter } from "../acquire/waiter.ts";
import { type GraphKey, type GraphRecord, type GraphWait, WaitGraph } from "./wait-graph.ts";
import { readNote, type Wait, type WaitNote } from "./wait-note.ts";

const INSPECT_MS = 2_000;
/** The search reads at most this many keys. It does not find a longer cycle. */
const MAX_KEYS = 256;
const NO_NOTE: WaitNote = { waits: [], generation: 0 };

/** The part of a lock manager that the graph needs. */
export interface GraphLockManager {
  readonly store: OpenStore;
  readonly caller: Caller;
  held(): readonly Hold[];
}

/** A task that waits while its actor, or a scope around it, holds something. */
export interface Watch {
  readonly waiter: Waiter;
  readonly manager: GraphLockManager;
  /**
   * The leases that the chain of scopes holds while the task waits. A call nested in a scope is a new actor,
   * so this list never grows during the wait.
   */
  readonly sections: readonly HeldLease[];
  /** The fences of the holders of the wanted keys in the last round. */
  seen: readonly bigint[];
}

/** All watched tasks, also by the leases that their chains hold. */
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

  /** Returns the leases under which no watched task waits any more, or null if the task was not watched. */
  delete(watch: Watch): HeldLease[] | null {
    if (!this.#all.delete(watch)) return null;
    return watch.sections.filter((lease) => {
      const waiting = this.#byLease.get(lease);
      waiting?.delete(watch);
      return waiting?.size === 0 && this.#byLease.delete(lease);
    });
  }

  /** The leases that are certainly held, each with the tasks that wait under it. */
  *held(): Generator<readonly [HeldLease, ReadonlySet<Watch>]> {
    for (const entry of this.#byLease) if (entry[0].leftMs > 0) yield entry;
  }

  of(lease: HeldLease): ReadonlySet<Watch> {
    return this.#byLease.get(lease) ?? new Set();
  }
}

/** Numbers the lock managers of this process, so that equal keys of different stores get different ids. */
export class LockManagers {
  readonly #all: GraphLockManager[] = [];
  readonly #numbers = new Map<GraphLockManager, number>();
  #made = 0;

  get all(): readonly GraphLockManager[] {
    return this.#all;
  }

  add(manager: GraphLockManager): void {
    this.#made += 1;
    this.#numbers.set(manager, this.#made);
    this.#all.push(manager);
  }

  delete(manager: GraphLockManager): void {
    this.#numbers.delete(manager);
    const at = this.#all.indexOf(manager);
    if (at !== -1) this.#all.splice(at, 1);
  }

  idOf(manager: GraphLockManager, key: string): string {
    return `${this.#numbers.get(manager)}:${key}`;
  }
}

export function waitOf(managers: LockManagers, { waiter, manager }: Watch): GraphWait {
  const { mode, permits, limit } = waiter.spec;
  return { mode, permits, limit, on: waiter.keys.map((key) => managers.idOf(manager, key)) };
}

/**
 * Tasks with the same signature wait for the same keys in the same way, so the graph needs only one of
 * them.
 */
export function signatureOf({ waiter, manager }: Watch, managers: LockManagers): string {
  const { mode, permits, limit } = waiter.spec;
  return JSON.stringify([managers.idOf(manager, ""), mode, permits, limit, ...waiter.keys]);
}

/** The graph of this process. It is exact, but contains no other process. */
export function ownGraph(
  managers: LockManagers,
  watches: Watches,
): { readonly graph: WaitGraph; readonly steps: number } {
  const keys = new Map<string, { readonly holders: GraphRecord[]; readonly writerWaits: boolean }>();
  const [waitsOf, steps] = ownWaits(managers, watches);
  for (const watch of watches) {
    for (const id of waitOf(managers, watch).on) keys.set(id, { holders: [], writerWaits: false });
  }
  for (const manager of new Set([...watches].map((watch) => watch.manager))) {
    for (const { lease, request } of manager.held()) {
      if (lease === null || lease.leftMs === 0) continue;
      for (const key of request.keys) {
        const id = managers.idOf(manager, key);
        keys.get(id)?.holders.push(ownRecord(lease, key, id, waitsOf.get(lease) ?? []));
      }
    }
  }
  return { graph: new WaitGraph(keys), steps };
}

/** The distinct waits under each lease, and how many tasks were visited to find them. */
function ownWaits(managers: LockManagers, watches: Watches): [Map<HeldLease, GraphWait[]>, number] {
  const waits = new Map<string, GraphWait>();
  const signatures = new Map<Watch, string>();
  for (const watch of watches) {
    if (!watch.waiter.pending) continue;
    const signature = signatureOf(watch, managers);
    signatures.set(watch, signature);
    if (!waits.has(signature)) waits.set(signature, waitOf(managers, watch));
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
    generation: 0,
  };
}

/**
 * The graph of the records in the stores: it starts with the keys that tasks of this process wait for, and
 * follows the notes of their holders. Rejects if a store cannot be asked.
 */
export async function storeGraph(managers: LockManagers, watches: Watches): Promise<WaitGraph> {
  const inspected = new Map<string, LockInfo | null>();
  let next = new Map<string, { readonly manager: GraphLockManager; readonly key: string }>();
  const enqueue = (manager: GraphLockManager, key: string): void => {
    const id = managers.idOf(manager, key);
    if (!inspected.has(id) && inspected.size + next.size < MAX_KEYS) next.set(id, { manager, key });
  };
  for (const { waiter, manager } of watches) for (const key of waiter.keys) enqueue(manager, key);
  const noted: { readonly manager: GraphLockManager; readonly info: LockInfo }[] = [];
  while (next.size > 0) {
    const step = [...next];
    next = new Map();
    const infos = await Promise.all(step.map(([, { manager, key }]) => inspect(manager, key)));
    step.forEach(([id, { manager }], i) => {
      const info = infos[i] ?? null;
      inspected.set(id, info);
      if (info !== null) noted.push({ manager, info });
      for (const wait of (info?.holders ?? []).flatMap((holder) => noteOf(holder).waits)) {
        for (const there of wait.seen === undefined ? [manager] : managers.all) {
          for (const key of wait.keys) enqueue(there, key);
        }
      }
    });
  }
  for (const watch of watches) watch.seen = fencesOf(managers, watch, inspected);
  return new WaitGraph(toGraphKeys(managers, noted, inspected));
}

function toGraphKeys(
  managers: LockManagers,
  noted: readonly { readonly manager: GraphLockManager; readonly info: LockInfo }[],
  inspected: ReadonlyMap<string, LockInfo | null>,
): Map<string, GraphKey> {
  const keys = new Map<string, GraphKey>();
  for (const { manager, info } of noted) {
    // A key without waiters blocks nobody. A note that still names it is left over from a dead process, whose
    // entry in the queue has already expired.
    if (info.waiters !== null && info.waiters.length === 0) continue;
    const id = managers.idOf(manager, info.key);
    // `limit` is the largest limit that a current caller names. If readers hold the key, that caller is a
    // waiter for a semaphore, and the holders still count as holders of a lock.
    const limit = info.holders.some(({ mode }) => mode === "shared") ? 1 : info.limit;
    const holders = info.holders.map((holder): GraphRecord => {
      const { label, fence, mode, permits } = holder;
      const note = noteOf(holder);
      const waits = note.waits.map((wait): GraphWait => {
        const on =
          wait.seen === undefined
            ? idsIn(managers, manager, wait)
            : idsInOtherStores(managers, wait, inspected);
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
        generation: note.generation,
      };
    });
    const writerWaits = info.waiters?.some((waiter) => waiter.mode === "exclusive") ?? false;
    keys.set(id, { holders, writerWaits });
  }
  return keys;
}

function idsIn(managers: LockManagers, manager: GraphLockManager, wait: Wait): string[] {
  return wait.keys.map((key) => managers.idOf(manager, key));
}

/** Ids of the waited-for keys in other stores: those that are held with a fence that the note names. */
function idsInOtherStores(
  managers: LockManagers,
  wait: Wait,
  inspected: ReadonlyMap<string, LockInfo | null>,
): string[] {
  return managers.all.flatMap((manager) =>
    idsIn(managers, manager, wait).filter((id) =>
      inspected.get(id)?.holders.some((holder) => wait.seen?.includes(holder.fence)),
    ),
  );
}

function noteOf(holder: HolderInfo): WaitNote {
  // A record that is kept by `atLeast` or was revoked ends without a release.
  const ends = holder.kept === true || holder.revoked !== undefined;
  return holder.waitingFor === undefined || ends ? NO_NOTE : readNote(holder.waitingFor);
}

function fencesOf(
  managers: LockManagers,
  watch: Watch,
  inspected: ReadonlyMap<string, LockInfo | null>,
): bigint[] {
  return watch.waiter.keys.flatMap((key) => {
    const info = inspected.get(managers.idOf(watch.manager, key));
    return info?.holders.map((holder) => holder.fence) ?? [];
  });
}

function inspect(manager: GraphLockManager, key: string): Promise<LockInfo | null> {
  return manager.caller.call("inspection", key, INSPECT_MS, (io) => manager.store.inspect(key, io));
}
