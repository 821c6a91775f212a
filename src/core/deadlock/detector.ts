// Finds cycles of actors that hold and wait for each other's keys (P15), in one process or across many.
//
// 1. The detector watches a task that has waited for `deadlock` while its actor holds a lease.
// 2. It first builds the wait graph of this process, which is exact. A knot in it (records that wait for
//    each other, see wait-graph.ts) is a deadlock, and the detector rejects one call of it immediately.
// 3. It then searches across processes. It writes what an actor waits for as a note into the records that
//    the actor holds (note-writer.ts), and follows the notes of other holders through the stores. A
//    process that finds itself in a knot rewrites its notes with a new generation number in each round.
// 4. The victim is the youngest record of the knot, so all processes choose the same one. Only the
//    process that holds it rejects the call, after it has read the knot twice with the same fences and
//    waits, and with a new generation in every record of other processes. All actors of the knot were
//    then alive and waiting at the same time. A note that a killed or stopped process left behind never
//    gets a new generation.
//
// Cost: a round in the process visits each pair of a waiter and a lease that its chain of scopes holds a
// few times, and no pair of waiters. A ring of n = 10,000 tasks that each hold a key and wait for the
// next one takes 14 n = 140,000 steps, 0.2 s of CPU time. `steps` counts them, and a test bounds their
// growth. A round asks the stores about at most MAX_KEYS keys (graph-builder.ts).

import { DueEntry, DueLists } from "../util/due-lists.ts";
import { DeadlockError, type DeadlockStep } from "../errors.ts";
import type { Hold } from "../lease/hold.ts";
import { showKey } from "../key.ts";
import type { HeldLease } from "../lease/lease.ts";
import {
  ownGraph,
  LockManagers,
  signatureOf,
  storeGraph,
  waitOf,
  type GraphLockManager,
  type Watch,
  Watches,
} from "./graph-builder.ts";
import type { System } from "../system.ts";
import type { Waiter } from "../acquire/waiter.ts";
import { type GraphRecord, type Knot, youngest } from "./wait-graph.ts";
import { type Wait, writeNote } from "./wait-note.ts";

/** The pause between rounds while there are watched tasks, shorter while the newest wait is young. */
const ROUND_MS = 250;
const LATER_ROUND_MS = 500;
const YOUNG_MS = 3_000;
/** The first pause between two readings of a knot. It grows by half with each reading. */
const CONFIRM_MS = 30;
/**
 * After a rejected call, its actor gets this long to release its keys before the detector rejects
 * another.
 */
const RELEASE_MS = 1_000;

/** The part of a lock manager that the detector needs. */
export interface DetectorLockManager extends GraphLockManager {
  note(hold: Hold, note: string | null): Promise<void>;
  deadlock(waiter: Waiter, error: DeadlockError): void;
}

/** The time at which the detector starts to watch a waiter. */
class WatchDue extends DueEntry {
  readonly watch: Watch;

  constructor(watch: Watch) {
    super();
    this.watch = watch;
  }
}

/** The state of a knot (a set of stuck records) between two rounds of the search. */
interface Sighting {
  /** The generation of each record's note when the knot was first seen. */
  readonly generations: ReadonlyMap<string, number>;
  readonly times: number;
}

const detectors = new WeakMap<System, Detector>();

export class Detector {
  /** How many tasks, leases and edges the rounds in this process have visited. */
  steps = 0;
  readonly #system: System;
  readonly #managers = new LockManagers();
  readonly #due: DueLists<WatchDue>;
  readonly #watched = new Watches();
  readonly #noted = new Set<HeldLease>();
  readonly #rejectedAtMs = new WeakMap<HeldLease, number>();
  /** The knots of the last round, by signature. */
  #knots = new Map<string, Sighting>();
  /** The generation of the notes of each lease. */
  readonly #generations = new WeakMap<HeldLease, number>();
  #reading = false;
  #cancelRound: (() => void) | null = null;

  constructor(system: System) {
    this.#system = system;
    this.#due = new DueLists<WatchDue>(system, (due) => this.#startWatching(due));
  }

  /** There is one detector per process, because an actor may hold and wait in several stores. */
  static of(system: System): Detector {
    let detector = detectors.get(system);
    if (detector === undefined) {
      detector = new Detector(system);
      detectors.set(system, detector);
    }
    return detector;
  }

  open(manager: DetectorLockManager): void {
    this.#managers.add(manager);
  }

  close(manager: DetectorLockManager): void {
    this.#managers.delete(manager);
    if (this.#managers.all.length === 0) this.#due.stop();
  }

  /** Registers a new waiter. A waiter whose chain of actors holds nothing cannot be part of a knot. */
  waits(waiter: Waiter, manager: DetectorLockManager, afterMs: number): void {
    const sections = waiter.actor.sections();
    if (sections.length === 0) return;
    const watch: Watch = { waiter, manager, sections, seen: [] };
    const due = new WatchDue(watch);
    this.#due.set(due, afterMs, waiter.sinceMs + afterMs);
    waiter.onEnd = () => this.#ended(due);
  }

  #startWatching(due: readonly WatchDue[]): void {
    for (const { watch } of due) this.#watched.add(watch);
    this.#round(0);
  }

  #ended(due: WatchDue): void {
    this.#due.delete(due);
    const idle = this.#watched.delete(due.watch);
    if (idle === null) return;
    // Where another task still waits under the lease, the next round replaces the note. Until then the
    // old note is harmless, because nothing gives it a new generation.
    for (const lease of idle) if (this.#noted.delete(lease)) void this.#writeNote(lease, null);
    if (this.#watched.size > 0) return;
    this.#cancelRound?.();
    this.#cancelRound = null;
    this.#knots.clear();
  }

  #round(inMs: number): void {
    this.#cancelRound?.();
    this.#cancelRound = this.#system.after(
      inMs,
      () => {
        this.#cancelRound = null;
        void this.#detect();
      },
      "background",
    );
  }

  async #detect(): Promise<void> {
    if (this.#reading) return;
    this.#reading = true;
    try {
      // A rejected call changes the graph: inspect this process again before asking a store, but let other
      // work run first.
      if (this.#detectInProcess()) this.#round(0);
      else if (this.#watched.size > 0) await this.#detectAcrossProcesses();
    } catch {
      // A store could not be asked. An incomplete graph does not prove a deadlock.
      this.#knots.clear();
    } finally {
      this.#reading = false;
      if (this.#watched.size > 0 && this.#cancelRound === null) this.#round(this.#paceMs());
    }
  }

  #paceMs(): number {
    let times = Number.POSITIVE_INFINITY;
    for (const sighting of this.#knots.values()) times = Math.min(times, sighting.times);
    if (times !== Number.POSITIVE_INFINITY) return Math.min(LATER_ROUND_MS, CONFIRM_MS * 1.5 ** times);
    let newestMs = Number.NEGATIVE_INFINITY;
    for (const { waiter } of this.#watched) newestMs = Math.max(newestMs, waiter.sinceMs);
    return this.#system.monoMs() - newestMs < YOUNG_MS ? ROUND_MS : LATER_ROUND_MS;
  }

  /** Searches the wait graph of this process. Returns whether it rejected a call. */
  #detectInProcess(): boolean {
    const { graph, steps } = ownGraph(this.#managers, this.#watched);
    const own = this.#ownLeases();
    const refused = graph.breakKnots((knot) => this.#rejectVictim(knot, own));
    this.steps += steps + graph.steps;
    return refused;
  }

  async #detectAcrossProcesses(): Promise<void> {
    await this.#updateNotes();
    const graph = await storeGraph(this.#managers, this.#watched);
    // Notes about keys of another store name the fences that this round has read there.
    await this.#updateNotes();
    const own = this.#ownLeases();
    const knots = new Map<string, Sighting>();
    const see = (knot: Knot, acts: boolean): boolean => {
      const leases = knot.records.flatMap((record) => own.get(nameOf(record)) ?? []);
      if (leases.length === 0) return false;
      const signature = knotSignature(knot);
      const before = this.#knots.get(signature);
      const generations =
        before?.generations ?? new Map(knot.records.map((record) => [record.id, record.generation]));
      const foreign = knot.records.filter((record) => !own.has(nameOf(record)));
      const all =
        before !== undefined && foreign.every((record) => record.generation !== generations.get(record.id));
      if (all && acts && this.#rejectVictim(knot, own)) return true;
      knots.set(signature, { generations, times: (before?.times ?? 0) + 1 });
      for (const lease of new Set(leases))
        this.#generations.set(lease, (this.#generations.get(lease) ?? 0) + 1);
      return false;
    };
    graph.breakKnots(
      (knot) => see(knot, true),
      (knot) => see(knot, false),
    );
    this.#knots = knots;
    if (knots.size > 0) await this.#updateNotes();
  }

  /** The leases of this process under which tasks wait, by the names of their records. */
  #ownLeases(): OwnLeases {
    const own = new Map<string, HeldLease[]>();
    for (const [lease] of this.#watched.held()) {
      for (const key of lease.keys) {
        const name = nameOf({ key, fence: lease.fenceOf(key) });
        const leases = own.get(name);
        if (leases === undefined) own.set(name, [lease]);
        else leases.push(lease);
      }
    }
    return own;
  }

  /** Writes the notes that have changed. Resolves when each store has answered or failed. */
  async #updateNotes(): Promise<void> {
    const writes: Promise<void>[] = [];
    const waiting = new Set<HeldLease>();
    for (const [lease, watches] of this.#watched.held()) {
      const waits = new Map<string, Wait>();
      for (const watch of watches) {
        if (!watch.waiter.pending) continue;
        const { keys, spec } = watch.waiter;
        const { mode, permits, limit } = spec;
        const elsewhere = (lease.owner as unknown) !== watch.manager;
        const wait: Wait = { keys, mode, permits, limit, ...(elsewhere ? { seen: watch.seen } : {}) };
        waits.set(signatureOf(watch, this.#managers), wait);
      }
      if (waits.size === 0) continue;
      const note = writeNote({ waits: [...waits.values()], generation: this.#generations.get(lease) ?? 0 });
      if (note === null) continue;
      waiting.add(lease);
      writes.push(this.#writeNote(lease, note));
    }
    for (const lease of this.#noted) {
      if (waiting.has(lease)) continue;
      this.#noted.delete(lease);
      writes.push(this.#writeNote(lease, null));
    }
    for (const lease of waiting) this.#noted.add(lease);
    await Promise.all(writes);
  }

  async #writeNote(lease: HeldLease, note: string | null): Promise<void> {
    await Promise.all(lease.holds.map((hold) => lease.owner.note(hold, note)));
  }

  /** The waiter to reject, if it belongs to this process. */
  #victim(knot: Knot, own: OwnLeases): Watch | null {
    for (const lease of own.get(nameOf(youngest(knot.records))) ?? []) {
      for (const watch of this.#watched.of(lease)) {
        if (watch.waiter.pending && knot.blocks(waitOf(this.#managers, watch))) return watch;
      }
    }
    return null;
  }

  #rejectVictim(knot: Knot, own: OwnLeases): boolean {
    const victim = this.#victim(knot, own);
    if (victim === null) return false;
    const nowMs = this.#system.monoMs();
    const { sections } = victim;
    if (sections.some((one) => nowMs - (this.#rejectedAtMs.get(one) ?? -RELEASE_MS) < RELEASE_MS))
      return false;
    for (const section of sections) this.#rejectedAtMs.set(section, nowMs);
    const error = deadlockError(knot.cycle(youngest(knot.records)), victim.waiter, nowMs);
    (victim.manager as DetectorLockManager).deadlock(victim.waiter, error);
    victim.waiter.refuse(error);
    return true;
  }
}

type OwnLeases = ReadonlyMap<string, readonly HeldLease[]>;

/** A name for the record that is the same in every process, whatever the URL of the store. */
function nameOf({ key, fence }: { readonly key: string; readonly fence: bigint }): string {
  return `${fence}:${key}`;
}

function knotSignature({ records }: Knot): string {
  return records
    .map(({ id, waits }) => JSON.stringify([id, waits]))
    .sort()
    .join();
}

function deadlockError(cycle: readonly GraphRecord[], waiter: Waiter, nowMs: number): DeadlockError {
  const steps = cycle.map((record, i): DeadlockStep => {
    const next = cycle[(i + 1) % cycle.length] as GraphRecord;
    return { label: record.label, holds: record.key, waitsFor: next.key };
  });
  const story = cycle.map((record, i): string => {
    const { holds, waitsFor } = steps[i] as DeadlockStep;
    return `${record.label} holds ${showKey(holds)} (fence ${record.fence}) and waits for ${showKey(waitsFor)}`;
  });
  const waitedMs = Math.round(nowMs - waiter.sinceMs);
  return new DeadlockError(
    `the wait for ${waiter.keys.map(showKey).join(", ")} was rejected after ${waitedMs} ms, because these ` +
      `holders wait for each other: ${story.join("; ")}. Release the locks that you hold and try again`,
    { key: waiter.keys[0], cycle: steps, retryable: true },
  );
}
