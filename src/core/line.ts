// The local line: tasks of this process that want the same keys. Only its head talks to the store, through one turn, so
// that a thousand waiting tasks cost the store one waiter; and a lease that a task lets go of passes to the next task
// without a round trip while its hand-off slice lasts (a slice of time, so that other processes' wait stays bounded
// whatever the sections take). The place in the store's line belongs to the turn, not to the task that opened it.

import { Turn, type TurnDeps } from "./acquire.ts";
import type { Actor } from "./actor.ts";
import type { Alarm } from "./alarm.ts";
import type { LockError } from "./errors.ts";
import type { Hold } from "./hold.ts";
import type { HeldLease } from "./lease.ts";
import { sameShape, type Wish } from "./options.ts";
import { closedError, timeoutError, unaskedError } from "./refusals.ts";
import type { Busy, HolderInfo } from "./store.ts";
import { type Task, type TaskLine, TaskQueue } from "./task.ts";

/** A lease is handed on only while so much of its ttl is left: the next task must not inherit an old window. */
const FRESH_SHARE = 0.5;
/** Of the short window of a lease whose first renewal is under way: the next task gets what this one got. */
const FRESH_SHARE_OF_SHORT = 0.25;

/** Who gets a lease, and since when it wanted it. */
export interface Waited {
  readonly wish: Wish;
  readonly actor: Actor;
  readonly sinceMs: number;
}

export interface LineDeps extends TurnDeps {
  readonly handoffMs: number;
  readonly deadlines: Alarm<Task>;
  /** Makes the handle of a granted hold. */
  lease(line: Line, hold: Hold, task: Waited, handedOff: boolean): HeldLease;
  /** A grant that nobody waits for any more. */
  giveBack(hold: Hold): void;
  waiting(task: Task): void;
  /** The line is empty and may be forgotten. */
  idle(line: Line): void;
}

export class Line implements TaskLine {
  readonly name: string;
  readonly keys: readonly string[];
  readonly #deps: LineDeps;
  readonly #tasks = new TaskQueue();
  readonly #holds = new Set<Hold>();
  /** The last grant: the only one that may be handed on. */
  #newest: Hold | null = null;
  #turn: Turn | null = null;
  /** The task that the turn was opened for. */
  #turnOf: Task | null = null;
  #cancelSlice: (() => void) | null = null;

  constructor(name: string, keys: readonly string[], deps: LineDeps) {
    this.name = name;
    this.keys = keys;
    this.#deps = deps;
  }

  get waiting(): number {
    return this.#tasks.size;
  }

  /** Whether a task that will not wait is certainly too late. */
  busyFor(task: { readonly mode: string; readonly limit: number }): boolean {
    if (this.#tasks.size > 0) return true;
    for (const hold of this.#holds) {
      if (hold.remaining() === 0 || task.limit > 1) continue;
      if (task.mode === "exclusive" || hold.shape.mode === "exclusive") return true;
    }
    return false;
  }

  enter(task: Task): Promise<HeldLease> {
    return new Promise((resolve, reject) => {
      task.wait(this, this.#deps.deadlines, resolve, reject);
      if (this.#tasks.size > 0 || this.#holds.size > 0) this.#announce(task);
      this.#tasks.push(task);
      this.#advance();
    });
  }

  /** A grant that came about beside the turn. */
  adopt(hold: Hold, task: Waited): HeldLease {
    this.#take(hold);
    return this.#deps.lease(this, hold, task, false);
  }

  #take(hold: Hold): void {
    this.#holds.add(hold);
    this.#newest = hold;
  }

  /** Passes the hold to the next task if it may; false when it has to go back to the store. */
  pass(hold: Hold): boolean {
    const next = this.#tasks.head;
    if (next === null || !this.#passable(hold, next)) return false;
    hold.pass();
    this.#give(next, hold, true);
    this.#advance();
    return true;
  }

  /** The hold is no longer this process's. */
  ended(hold: Hold): void {
    this.#holds.delete(hold);
    // After the store has been told: the release leaves first, so that other processes' turn comes before ours.
    this.#advance();
  }

  forgetIfIdle(): void {
    if (this.#tasks.size === 0 && this.#holds.size === 0) this.#deps.idle(this);
  }

  /** The locks are being closed: tasks whose actor may not go on are refused. */
  rejectTasks(admits: (actor: Actor) => boolean): void {
    for (const task of this.#tasks.all()) {
      if (!admits(task.actor)) this.leave(task, closedError(this.keys));
    }
  }

  #passable(hold: Hold, task: Task): boolean {
    return (
      !hold.noted &&
      // A newer grant beside it means that the store has forgotten this one.
      hold === this.#newest &&
      hold.hasRoom &&
      sameShape(hold.shape, task.wish) &&
      // One that was extended is longer than the next task asked for.
      hold.ttlMs === task.wish.ttlMs &&
      this.#sliceLeftMs(hold) > 0 &&
      hold.remaining() >= freshMs(hold)
    );
  }

  #sliceLeftMs(hold: Hold): number {
    return hold.grantedAtMs + this.#deps.handoffMs - this.#deps.system.monoMs();
  }

  /** Makes sure that somebody asks the store for the head of the line, or that nobody does when there is none. */
  #advance(): void {
    const head = this.#tasks.head;
    if (this.#turn !== null && (head === null || !this.#mayTakeOver(head))) {
      this.#turn.stop();
      this.#turn = null;
    }
    if (head === null) {
      this.#cancelSlice?.();
      this.#cancelSlice = null;
      if (this.#holds.size === 0) this.#deps.idle(this);
      return;
    }
    if (this.#turn !== null) return;
    for (const hold of this.#holds) {
      if (this.#passable(hold, head)) return this.#askAtSliceEnd(hold);
    }
    this.#ask(head);
  }

  /**
   * Whether the turn can go on for this head. The store may have granted it already without our knowing. Alone with the
   * key that does no harm; beside others its fence may be older than one that was returned before this head asked (P3).
   */
  #mayTakeOver(head: Task): boolean {
    if (head === this.#turnOf) return true;
    return (
      head.wish.mode === "exclusive" &&
      head.wish.limit === 1 &&
      sameShape((this.#turn as Turn).shape, head.wish)
    );
  }

  /** While the key can still be handed over inside the process the store need not know who waits here. */
  #askAtSliceEnd(hold: Hold): void {
    if (this.#cancelSlice !== null) return;
    this.#cancelSlice = this.#deps.system.after(this.#sliceLeftMs(hold), () => {
      this.#cancelSlice = null;
      this.#advance();
    });
  }

  #ask(head: Task): void {
    const turn = new Turn(
      this.#deps,
      { keys: this.keys, shape: head.wish, label: head.wish.label, actor: head.actor.name },
      {
        granted: (hold) => this.#granted(turn, hold),
        failed: (error) => this.#failed(turn, error),
        busy: () => {
          if (this.#tasks.head !== null) this.#announce(this.#tasks.head);
        },
      },
    );
    this.#turn = turn;
    this.#turnOf = head;
    turn.start(this.#holds.size > 0);
  }

  #announce(task: Task): void {
    if (!task.announced) this.#deps.waiting(task);
    task.announced = true;
  }

  #granted(turn: Turn, hold: Hold): void {
    if (this.#turn === turn) this.#turn = null;
    const task = this.#tasks.head;
    if (task === null || !sameShape(task.wish, hold.shape)) {
      this.#deps.giveBack(hold);
    } else {
      this.#take(hold);
      this.#give(task, hold, false);
    }
    this.#advance();
  }

  #failed(turn: Turn, error: LockError): void {
    if (this.#turn === turn) this.#turn = null;
    const task = this.#tasks.head;
    if (task !== null) this.leave(task, error);
    else this.#advance();
  }

  #give(task: Task, hold: Hold, handedOff: boolean): void {
    this.#tasks.remove(task);
    task.granted(this.#deps.lease(this, hold, task, handedOff));
  }

  leave(task: Task, error: LockError): void {
    this.#tasks.remove(task);
    task.refused(error);
    this.#advance();
  }

  /** At its deadline the head looks one last time; the others know that somebody is before them. */
  expired(task: Task): void {
    const turn = this.#tasks.head === task ? this.#turn : null;
    if (turn === null) {
      this.leave(task, this.#timeout(task));
      return;
    }
    void turn.lastTry().then(() => {
      if (task.pending) this.leave(task, this.#timeout(task));
    });
  }

  #timeout(task: Task): LockError {
    const waitedMs = Math.round(this.#deps.system.monoMs() - task.sinceMs);
    const turn = this.#turn;
    if (turn !== null && turn.lastError !== null) {
      return unaskedError(this.keys, waitedMs, turn.lastError);
    }
    const busy: Partial<Busy> = turn?.lastBusy ?? {};
    const holders = busy.holders ?? this.ownHolders();
    return timeoutError(this.keys, waitedMs, { ...busy, holders }, this.#tasks.size);
  }

  ownHolders(): HolderInfo[] {
    return [...this.#holds].map((hold) => ({
      label: hold.lease?.label ?? hold.request.label,
      mode: hold.shape.mode,
      permits: hold.shape.permits,
      fence: hold.fences[0] as bigint,
      remainingMs: hold.remaining(),
      heldMs: this.#deps.system.monoMs() - hold.grantedAtMs,
    }));
  }
}

function freshMs(hold: Hold): number {
  return hold.short ? hold.window.validMs * FRESH_SHARE_OF_SHORT : hold.termMs * FRESH_SHARE;
}
