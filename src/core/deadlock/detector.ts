// Finds actors that hold and wait for each other's keys (P15), in one process or many, over the stores that they have open.
//
// 1. A task that has waited for `deadlock` while its actor holds something is watched.
// 2. Inside the process the graph is known: a knot in it is real, and its victim is refused at once.
// 3. Across processes: the records that the actor holds are told what it waits for (notes.ts), and the notes are followed
//    through the stores. Whoever sees itself in a knot repeats its note with another number, again and again.
// 4. The victim is the youngest record, the same for all who see the knot. Only the process that holds it acts, and only when
//    it has read the knot twice with the same fences and waits, and everybody else in it has repeated its note in
//    between: then all of them were alive and waiting at one moment. A note that a killed or stopped process left, or that
//    could not be cleared yet, is repeated by nobody.
//
// Cost: with n waiting tasks a look inside the process visits each pair of a waiter and a lease that its
// chain of scopes holds a few times, and no pair of waiters. For n = 10,000 tasks that each hold a key and
// wait for the next one in a ring, it takes 14 n = 140,000 steps, 0.2 s of CPU time. `steps` counts them,
// and a test bounds their growth. The stores are asked about at most MAX_KEYS keys per look (survey.ts).

import { DueEntry, DueLists } from "../util/due-lists.ts";
import { DeadlockError, type DeadlockStep } from "../errors.ts";
import type { Hold } from "../lease/hold.ts";
import { showKey } from "../key.ts";
import type { HeldLease } from "../lease/lease.ts";
import {
  ownGraph,
  Places,
  signatureOf,
  storeGraph,
  waitOf,
  type WaitPlace,
  type Watch,
  Watches,
} from "./graph-builder.ts";
import type { System } from "../system.ts";
import type { Waiter } from "../acquire/waiter.ts";
import { type GraphRecord, type Knot, youngest } from "./wait-graph.ts";
import { type Wait, writeNote } from "./wait-note.ts";

/** How often the stores are read while somebody is watched: often while a wait is young, then less. */
const ROUND_MS = 250;
const LATER_ROUND_MS = 500;
const YOUNG_MS = 3_000;
/** Between two readings of a knot, growing from one to the next. */
const CONFIRM_MS = 30;
/** After a refusal its actor gets time to let go before another of its tasks is refused. */
const LET_GO_MS = 1_000;

/** One open store, as the detector needs it. */
export interface DeadlockPlace extends WaitPlace {
  note(hold: Hold, note: string | null): Promise<void>;
  deadlock(waiter: Waiter, error: DeadlockError): void;
}

/** When a waiter has waited for so long that it is watched. */
class WatchDue extends DueEntry {
  readonly watch: Watch;

  constructor(watch: Watch) {
    super();
    this.watch = watch;
  }
}

interface Sighting {
  /** What each record had said when the knot was first seen. */
  readonly said: ReadonlyMap<string, number>;
  readonly times: number;
}

const detectors = new WeakMap<System, Detector>();

export class Detector {
  /** How many tasks, leases and edges the looks inside the process have visited. */
  steps = 0;
  readonly #system: System;
  readonly #places = new Places();
  readonly #due: DueLists<WatchDue>;
  readonly #watched = new Watches();
  readonly #noted = new Set<HeldLease>();
  readonly #refusedAtMs = new WeakMap<HeldLease, number>();
  /** The knots of the last reading, by their signature. */
  #knots = new Map<string, Sighting>();
  /** With which number the notes of a lease are repeated. */
  readonly #said = new WeakMap<HeldLease, number>();
  #reading = false;
  #cancelRound: (() => void) | null = null;

  constructor(system: System) {
    this.#system = system;
    this.#due = new DueLists<WatchDue>(system, (due) => this.#rang(due));
  }

  /** One per process, because an actor may hold and wait at several stores. */
  static of(system: System): Detector {
    let detector = detectors.get(system);
    if (detector === undefined) {
      detector = new Detector(system);
      detectors.set(system, detector);
    }
    return detector;
  }

  open(place: DeadlockPlace): void {
    this.#places.add(place);
  }

  close(place: DeadlockPlace): void {
    this.#places.delete(place);
    if (this.#places.all.length === 0) this.#due.stop();
  }

  /** A waiter begins to wait. One whose chain of actors holds nothing cannot be part of any knot. */
  waits(waiter: Waiter, place: DeadlockPlace, afterMs: number): void {
    const sections = waiter.actor.sections();
    if (sections.length === 0) return;
    const watch: Watch = { waiter, place, sections, seen: [] };
    const due = new WatchDue(watch);
    this.#due.set(due, afterMs, waiter.sinceMs + afterMs);
    waiter.onEnd = () => this.#ended(due);
  }

  #rang(due: readonly WatchDue[]): void {
    for (const { watch } of due) this.#watched.add(watch);
    this.#round(0);
  }

  #ended(due: WatchDue): void {
    this.#due.delete(due);
    const idle = this.#watched.delete(due.watch);
    if (idle === null) return;
    // Leases during which other tasks wait are noted anew with the next look: an old note is repeated by
    // nobody.
    for (const lease of idle) if (this.#noted.delete(lease)) void this.#tell(lease, null);
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
        void this.#look();
      },
      "background",
    );
  }

  async #look(): Promise<void> {
    if (this.#reading) return;
    this.#reading = true;
    try {
      // A refusal changes what is known: look again before any store is asked, but let other work run in
      // between.
      if (this.#lookHere()) this.#round(0);
      else if (this.#watched.size > 0) await this.#lookAbroad();
    } catch {
      // A store could not be asked: what is not known is no deadlock.
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

  /** What is known without asking anybody. Returns whether a call was refused. */
  #lookHere(): boolean {
    const { graph, steps } = ownGraph(this.#places, this.#watched);
    const own = this.#ownLeases();
    const refused = graph.breakKnots((knot) => this.#act(knot, own));
    this.steps += steps + graph.steps;
    return refused;
  }

  async #lookAbroad(): Promise<void> {
    await this.#note();
    const graph = await storeGraph(this.#places, this.#watched);
    // Waits at another store than the one that holds are noted with what was just seen there.
    await this.#note();
    const own = this.#ownLeases();
    const knots = new Map<string, Sighting>();
    const see = (knot: Knot, acts: boolean): boolean => {
      const leases = knot.records.flatMap((record) => own.get(nameOf(record)) ?? []);
      if (leases.length === 0) return false;
      const signature = knotSignature(knot);
      const before = this.#knots.get(signature);
      const said = before?.said ?? new Map(knot.records.map((record) => [record.id, record.said]));
      const foreign = knot.records.filter((record) => !own.has(nameOf(record)));
      const all = before !== undefined && foreign.every((record) => record.said !== said.get(record.id));
      if (all && acts && this.#act(knot, own)) return true;
      knots.set(signature, { said, times: (before?.times ?? 0) + 1 });
      for (const lease of new Set(leases)) this.#said.set(lease, (this.#said.get(lease) ?? 0) + 1);
      return false;
    };
    graph.breakKnots(
      (knot) => see(knot, true),
      (knot) => see(knot, false),
    );
    this.#knots = knots;
    if (knots.size > 0) await this.#note();
  }

  /** The leases during which tasks wait, by what their records are called. */
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

  /** Brings all notes up to date; resolves when the stores have been asked. */
  async #note(): Promise<void> {
    const told: Promise<void>[] = [];
    const waiting = new Set<HeldLease>();
    for (const [lease, watches] of this.#watched.held()) {
      const waits = new Map<string, Wait>();
      for (const watch of watches) {
        if (!watch.waiter.pending) continue;
        const { keys, spec } = watch.waiter;
        const { mode, permits, limit } = spec;
        const elsewhere = (lease.owner as unknown) !== watch.place;
        const wait: Wait = { keys, mode, permits, limit, ...(elsewhere ? { seen: watch.seen } : {}) };
        waits.set(signatureOf(watch, this.#places), wait);
      }
      if (waits.size === 0) continue;
      const note = writeNote({ waits: [...waits.values()], said: this.#said.get(lease) ?? 0 });
      if (note === null) continue;
      waiting.add(lease);
      told.push(this.#tell(lease, note));
    }
    for (const lease of this.#noted) {
      if (waiting.has(lease)) continue;
      this.#noted.delete(lease);
      told.push(this.#tell(lease, null));
    }
    for (const lease of waiting) this.#noted.add(lease);
    await Promise.all(told);
  }

  async #tell(lease: HeldLease, note: string | null): Promise<void> {
    await Promise.all(lease.holds.map((hold) => lease.owner.note(hold, note)));
  }

  /** The waiter to be refused, if it is one of ours. */
  #victim(knot: Knot, own: OwnLeases): Watch | null {
    for (const lease of own.get(nameOf(youngest(knot.records))) ?? []) {
      for (const watch of this.#watched.of(lease)) {
        if (watch.waiter.pending && knot.blocks(waitOf(this.#places, watch))) return watch;
      }
    }
    return null;
  }

  #act(knot: Knot, own: OwnLeases): boolean {
    const victim = this.#victim(knot, own);
    if (victim === null) return false;
    const nowMs = this.#system.monoMs();
    const { sections } = victim;
    if (sections.some((one) => nowMs - (this.#refusedAtMs.get(one) ?? -LET_GO_MS) < LET_GO_MS)) return false;
    for (const section of sections) this.#refusedAtMs.set(section, nowMs);
    const error = deadlockError(knot.cycle(youngest(knot.records)), victim.waiter, nowMs);
    (victim.place as DeadlockPlace).deadlock(victim.waiter, error);
    victim.waiter.refuse(error);
    return true;
  }
}

type OwnLeases = ReadonlyMap<string, readonly HeldLease[]>;

/** The same for everybody who reads the record, through whichever connection. */
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
  const story = cycle.map((record, i) => {
    const { holds, waitsFor } = steps[i] as DeadlockStep;
    return `${record.label} holds ${showKey(holds)} (fence ${record.fence}) and waits for ${showKey(waitsFor)}`;
  });
  const waitedMs = Math.round(nowMs - waiter.sinceMs);
  return new DeadlockError(
    `${waiter.keys.map(showKey).join(", ")} was refused after ${waitedMs} ms because all of these wait for each other: ${story.join("; ")}. The youngest gives way: let go of what you hold and try again`,
    { key: waiter.keys[0], cycle: steps, retryable: true },
  );
}
