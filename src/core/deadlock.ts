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

import { Alarm } from "./alarm.ts";
import { DeadlockError, type DeadlockStep } from "./errors.ts";
import type { Hold } from "./hold.ts";
import { showKey } from "./key.ts";
import type { HeldLease } from "./lease.ts";
import { ownGraph, Places, storeGraph, waitOf, type WaitPlace, wantedKeys, type Watch } from "./survey.ts";
import type { System } from "./system.ts";
import type { Task } from "./task.ts";
import { type GraphRecord, type WaitGraph, youngest } from "./wait-graph.ts";
import { type Wait, writeNote } from "./waits.ts";

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
  deadlock(task: Task, error: DeadlockError): void;
}

interface Sighting {
  /** What each record had said when the knot was first seen. */
  readonly said: ReadonlyMap<string, number>;
  readonly times: number;
}

const detectors = new WeakMap<System, Detector>();

export class Detector {
  readonly #system: System;
  readonly #places = new Places();
  readonly #due: Alarm<Watch>;
  readonly #watched = new Set<Watch>();
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
    this.#due = new Alarm<Watch>(system, (due) => this.#rang(due));
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

  /** A task begins to wait. One whose actor holds nothing cannot be part of any knot. */
  waits(task: Task, place: DeadlockPlace, afterMs: number): void {
    const sections = task.actor.sections();
    if (sections.length === 0) return;
    const watch: Watch = { task, place, sections, seen: [] };
    this.#due.set(watch, task.sinceMs + afterMs);
    task.onEnd = () => this.#ended(watch);
  }

  #rang(due: readonly Watch[]): void {
    for (const watch of due) this.#watched.add(watch);
    this.#round(0);
  }

  #ended(watch: Watch): void {
    this.#due.delete(watch);
    if (!this.#watched.delete(watch)) return;
    void this.#note();
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
      this.#lookHere();
      if (this.#watched.size > 0) await this.#lookAbroad();
    } catch {
      // A store could not be asked: what is not known is no deadlock.
      this.#knots.clear();
    } finally {
      this.#reading = false;
      if (this.#watched.size > 0 && this.#cancelRound === null) this.#round(this.#paceMs());
    }
  }

  #paceMs(): number {
    if (this.#knots.size > 0) {
      const times = Math.min(...[...this.#knots.values()].map((sighting) => sighting.times));
      return Math.min(LATER_ROUND_MS, CONFIRM_MS * 1.5 ** times);
    }
    const newestMs = Math.max(...[...this.#watched].map((watch) => watch.task.sinceMs));
    return this.#system.monoMs() - newestMs < YOUNG_MS ? ROUND_MS : LATER_ROUND_MS;
  }

  /** What is known without asking anybody. Every refusal changes it. */
  #lookHere(): void {
    for (let refused = true; refused;) {
      const watches = this.#current();
      const graph = ownGraph(this.#places, watches);
      refused = graph.knots().some((knot) => this.#act(graph, knot, watches));
    }
  }

  async #lookAbroad(): Promise<void> {
    await this.#note();
    const graph = await storeGraph(this.#places, this.#current());
    // Waits at another store than the one that holds are noted with what was just seen there.
    await this.#note();
    const watches = this.#current();
    const own = watches.flatMap((watch) => watch.sections);
    const knots = new Map<string, Sighting>();
    for (const knot of graph.knots()) {
      const sections = own.filter((section) => knot.some((record) => isOf(record, section)));
      if (sections.length === 0) continue;
      const signature = signatureOf(knot);
      const before = this.#knots.get(signature);
      const said = before?.said ?? new Map(knot.map((record) => [record.id, record.said]));
      const foreign = knot.filter((record) => !own.some((section) => isOf(record, section)));
      const all = before !== undefined && foreign.every((record) => record.said !== said.get(record.id));
      if (all && this.#act(graph, knot, watches)) continue;
      knots.set(signature, { said, times: (before?.times ?? 0) + 1 });
      for (const section of sections) this.#said.set(section, (this.#said.get(section) ?? 0) + 1);
    }
    this.#knots = knots;
    if (knots.size > 0) await this.#note();
  }

  /** The tasks that still wait, with what their actors hold now. */
  #current(): Watch[] {
    for (const watch of this.#watched) watch.sections = watch.task.actor.sections();
    return [...this.#watched].filter((watch) => watch.task.pending && watch.sections.length > 0);
  }

  /** Brings all notes up to date; resolves when the stores have been asked. */
  async #note(): Promise<void> {
    const waits = new Map<HeldLease, Wait[]>();
    for (const watch of this.#current()) {
      const keys = wantedKeys(watch);
      if (keys.length === 0) continue;
      const { mode, permits, limit } = watch.task.wish;
      for (const section of watch.sections) {
        const elsewhere = (section.owner as unknown) !== watch.place;
        const wait: Wait = { keys, mode, permits, limit, ...(elsewhere ? { seen: watch.seen } : {}) };
        waits.set(section, [...(waits.get(section) ?? []), wait]);
      }
    }
    const told: Promise<void>[] = [];
    for (const section of new Set([...this.#noted, ...waits.keys()])) {
      const own = waits.get(section);
      const said = this.#said.get(section) ?? 0;
      const note = own === undefined ? null : writeNote({ waits: own, said });
      if (note === null) this.#noted.delete(section);
      else this.#noted.add(section);
      for (const hold of section.holds) told.push(section.owner.note(hold, note));
    }
    await Promise.all(told);
  }

  /** The task to be refused, if it is one of ours. */
  #victim(graph: WaitGraph, knot: readonly GraphRecord[], watches: readonly Watch[]): Watch | null {
    const { key, fence } = youngest(knot);
    for (const watch of watches) {
      if (!watch.task.pending || !watch.sections.some((one) => isOf({ key, fence }, one))) continue;
      if (graph.blockers(waitOf(this.#places, watch)).some((record) => knot.includes(record))) return watch;
    }
    return null;
  }

  #act(graph: WaitGraph, knot: readonly GraphRecord[], watches: readonly Watch[]): boolean {
    const victim = this.#victim(graph, knot, watches);
    if (victim === null) return false;
    const nowMs = this.#system.monoMs();
    const sections = victim.sections;
    if (sections.some((one) => nowMs - (this.#refusedAtMs.get(one) ?? -LET_GO_MS) < LET_GO_MS)) return false;
    for (const section of sections) this.#refusedAtMs.set(section, nowMs);
    const error = deadlockError(graph.cycle(youngest(knot), knot), victim.task, nowMs);
    (victim.place as DeadlockPlace).deadlock(victim.task, error);
    victim.task.refuse(error);
    return true;
  }
}

function isOf({ key, fence }: { readonly key: string; readonly fence: bigint }, section: HeldLease): boolean {
  return section.keys.includes(key) && section.fenceOf(key) === fence;
}

function signatureOf(knot: readonly GraphRecord[]): string {
  return knot
    .map(({ id, waits }) => JSON.stringify([id, waits]))
    .sort()
    .join();
}

function deadlockError(cycle: readonly GraphRecord[], task: Task, nowMs: number): DeadlockError {
  const steps = cycle.map((record, i): DeadlockStep => {
    const next = cycle[(i + 1) % cycle.length] as GraphRecord;
    return { label: record.label, holds: record.key, waitsFor: next.key };
  });
  const story = cycle.map((record, i) => {
    const { holds, waitsFor } = steps[i] as DeadlockStep;
    return `${record.label} holds ${showKey(holds)} (fence ${record.fence}) and waits for ${showKey(waitsFor)}`;
  });
  const waitedMs = Math.round(nowMs - task.sinceMs);
  return new DeadlockError(
    `${task.keys.map(showKey).join(", ")} was refused after ${waitedMs} ms because all of these wait for each other: ${story.join("; ")}. The youngest gives way: let go of what you hold and try again`,
    { key: task.keys[0], cycle: steps, retryable: true },
  );
}
