// What the page knows: the locks as they are now, and what has happened to them since the page was opened.
// All of it follows from comparing one look of the server with the one before, so it is as fine as these
// looks.

import type { FeedMessage, LockJson } from "../src/dashboard/lock-feed.ts";

export type { LockJson } from "../src/dashboard/lock-feed.ts";
export type Finding = Extract<FeedMessage, { type: "findings" }>["findings"][number];
export type Holder = LockJson["holders"][number];

export interface Settings {
  readonly title: string;
  readonly allowRevoke: boolean;
}

export type Message = FeedMessage | ({ readonly type: "settings" } & Settings);

export interface KeyEvent {
  readonly at: number;
  readonly what: string;
}

/** Upper bounds in seconds. */
const BUCKETS: readonly number[] = [1, 2, 5, 10, 30, 60, 300];
const MOST_POINTS = 600;
const MOST_EVENTS_OF_A_KEY = 100;
const MOST_KEYS_WITH_EVENTS = 5_000;
const COOLING = 0.9;
const COLD = 0.05;
const MOST_DEADLOCKS = 8;
/** A lease that ended this close to its end was not released. */
const EXPIRED_MS = 1_200;
export const HOT_KEYS = 5;

export interface Deadlock {
  readonly at: number;
  readonly cycle: readonly string[];
}

export interface Point {
  readonly at: number;
  readonly held: number;
  readonly waiting: number;
  readonly grants: number;
  /** Of the keys that were hottest at that time. */
  readonly heat: ReadonlyMap<string, number>;
}

export class Model {
  readonly locks = new Map<string, LockJson>();
  readonly points: Point[] = [];
  readonly holdTimes: number[] = Array.from({ length: BUCKETS.length + 1 }, () => 0);
  /** The last ones, the newest first, from this process and from what the store shows. */
  deadlocks: readonly Deadlock[] = [];
  readonly waitTimes: number[] = Array.from({ length: BUCKETS.length + 1 }, () => 0);
  settings: Settings = { title: "", allowRevoke: false };
  findings: readonly Finding[] = [];
  away: string | null = null;
  /** How far the server's clock is ahead of ours. */
  aheadMs = 0;
  grants = 0;
  expired = 0;
  revoked = 0;
  /** Increases with every message, so that lists know that they are out of date. */
  version = 0;
  isReady = false;
  readonly #events = new Map<string, KeyEvent[]>();
  readonly #heat = new Map<string, number>();

  get nowMs(): number {
    return Date.now() + this.aheadMs;
  }

  eventsOf(key: string): readonly KeyEvent[] {
    return this.#events.get(key) ?? [];
  }

  heatOf(key: string): number {
    return this.#heat.get(key) ?? 0;
  }

  hottest(): readonly string[] {
    const warm = [...this.#heat].filter(([, heat]) => heat > 1);
    return warm
      .toSorted((a, b) => b[1] - a[1])
      .slice(0, HOT_KEYS)
      .map(([key]) => key);
  }

  receive(message: Message): void {
    this.version += 1;
    if (message.type === "settings") this.settings = message;
    else if (message.type === "findings") this.findings = message.findings;
    else if (message.type === "deadlock") this.#deadlocked(message.at, message.cycle);
    else if (message.type === "lost") this.#note(message.key, message);
    else if (message.type === "away") this.away = message.message;
    else this.#look(message);
  }

  #look(message: Extract<Message, { type: "all" | "change" }>): void {
    this.away = null;
    this.aheadMs = message.at - Date.now();
    const isFirst = !this.isReady;
    this.isReady = true;
    const gone = new Set(message.gone);
    if (message.type === "all") {
      const named = new Set(message.set.map(({ key }) => key));
      for (const key of this.locks.keys()) if (!named.has(key)) gone.add(key);
    }
    const grantsBefore = this.grants;
    for (const [key, heat] of this.#heat)
      if (heat < COLD) this.#heat.delete(key);
      else this.#heat.set(key, heat * COOLING);
    for (const key of gone) this.#changed(message.at, this.locks.get(key), undefined, isFirst);
    for (const lock of message.set) this.#changed(message.at, this.locks.get(lock.key), lock, isFirst);
    for (const cycle of this.#cycles()) this.#deadlocked(message.at, cycle);
    this.#addPoint(message.at, isFirst ? 0 : this.grants - grantsBefore);
  }

  #deadlocked(at: number, cycle: readonly string[]): void {
    const others = this.deadlocks.filter((one) => nameOf(one.cycle) !== nameOf(cycle));
    this.deadlocks = [{ at, cycle }, ...others].slice(0, MOST_DEADLOCKS);
    for (const key of cycle) this.#note(key, { at, what: `deadlock of ${cycle.join(", ")}` });
  }

  #changed(at: number, old: LockJson | undefined, now: LockJson | undefined, isFirst: boolean): void {
    const key = (now ?? old)?.key;
    if (key === undefined) return;
    if (now === undefined) this.locks.delete(key);
    else this.locks.set(key, now);
    if (isFirst) return;
    const before = new Map(old?.holders.map((holder) => [holder.fence, holder]));
    const after = new Map(now?.holders.map((holder) => [holder.fence, holder]));
    for (const holder of before.values()) if (!after.has(holder.fence)) this.#ended(at, key, holder);
    for (const holder of after.values()) {
      const known = before.get(holder.fence);
      if (known === undefined) {
        this.grants += 1;
        this.#warm(key, 1);
        this.#note(key, { at, what: `granted to ${holder.label}, fence ${holder.fence}` });
      } else if (holder.revoked !== null && known.revoked === null) {
        this.revoked += 1;
        this.#note(key, { at, what: `revoked from ${holder.label}: ${holder.revoked}` });
      }
    }
    this.#waitersChanged(at, key, old, now);
  }

  #ended(at: number, key: string, { label, fence, since, until, kept, revoked }: Holder): void {
    count(this.holdTimes, at - since);
    const isExpired = !kept && revoked === null && until - at < EXPIRED_MS;
    if (isExpired) this.expired += 1;
    this.#note(key, { at, what: `${isExpired ? "expired at" : "let go by"} ${label}, fence ${fence}` });
  }

  #waitersChanged(at: number, key: string, old: LockJson | undefined, now: LockJson | undefined): void {
    const waiting = new Set(now?.waiters?.map(({ label }) => label));
    for (const { label, since } of old?.waiters ?? [])
      if (!waiting.has(label)) count(this.waitTimes, at - since);
    const [before, after] = [old?.waiters?.length ?? 0, now?.waiters?.length ?? 0];
    if (after > 0) this.#warm(key, after);
    if (before !== after) this.#note(key, { at, what: after === 1 ? "1 waits" : `${after} wait` });
  }

  #warm(key: string, more: number): void {
    this.#heat.set(key, this.heatOf(key) + more);
  }

  #note(key: string, event: KeyEvent): void {
    const events = this.#events.get(key) ?? [];
    events.push(event);
    if (events.length > MOST_EVENTS_OF_A_KEY) events.shift();
    this.#events.delete(key);
    this.#events.set(key, events);
    if (this.#events.size > MOST_KEYS_WITH_EVENTS)
      for (const oldest of this.#events.keys()) {
        this.#events.delete(oldest);
        break;
      }
  }

  #addPoint(at: number, grants: number): void {
    let held = 0;
    let waiting = 0;
    for (const { holders, waiters } of this.locks.values()) {
      if (holders.length > 0) held += 1;
      waiting += waiters?.length ?? 0;
    }
    const heat = new Map(this.hottest().map((key) => [key, this.heatOf(key)]));
    this.points.push({ at, held, waiting, grants, heat });
    if (this.points.length > MOST_POINTS) this.points.shift();
  }

  /** Cycles of keys whose holders wait for each other; each one once, from its smallest key. */
  #cycles(): readonly (readonly string[])[] {
    const next = new Map<string, readonly string[]>();
    for (const { key, holders } of this.locks.values()) {
      const wanted = holders.flatMap(({ waitingFor }) => waitingFor ?? []);
      if (wanted.length > 0) next.set(key, wanted);
    }
    const found = new Map<string, readonly string[]>();
    for (const start of next.keys()) {
      const path = [start];
      for (let at = next.get(start)?.[0]; at !== undefined; at = next.get(at)?.[0]) {
        const from = path.indexOf(at);
        if (from !== -1) {
          const cycle = path.slice(from);
          found.set(nameOf(cycle), cycle);
          break;
        }
        path.push(at);
      }
    }
    return [...found.values()];
  }
}

/** The same for a cycle that was entered elsewhere. */
const nameOf = (cycle: readonly string[]): string => cycle.toSorted().join("\0");

function count(histogram: number[], ms: number): void {
  const bucket = BUCKETS.findIndex((seconds) => ms < seconds * 1_000);
  const index = bucket === -1 ? BUCKETS.length : bucket;
  histogram[index] = (histogram[index] ?? 0) + 1;
}
