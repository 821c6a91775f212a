// The local line: tasks of this process that want the same keys. Only its head talks to the store, through one turn, so
// that a thousand waiting tasks cost the store one waiter; and a lease that a task lets go of passes to the next task
// without a round trip while its hand-off slice lasts (a slice of time, so that other processes' wait stays bounded
// whatever the sections take). The place in the store's line belongs to the turn, not to the task that opened it.

import { type FirstAnswer, Acquisition, type AcquisitionContext } from "./acquisition.ts";
import type { Actor } from "../lease/actor.ts";
import type { DueLists } from "../util/due-lists.ts";
import type { LockError } from "../errors.ts";
import type { Hold, HoldLine } from "../lease/hold.ts";
import type { HeldLease } from "../lease/lease.ts";
import { sameShape, type Wish } from "../options.ts";
import { closedError, SHOWN_HOLDERS, timeoutError, unaskedError } from "./acquire-errors.ts";
import type { Busy } from "../store.ts";
import type { Instant } from "../system.ts";
import { type Task, type TaskLine, TaskQueue } from "./waiter.ts";

/** A lease is handed on only while so much of its ttl is left: the next task must not inherit an old window. */
const FRESH_SHARE = 0.5;
/** So many readers, or permits, of one line are asked for at once. */
const MOST_BESIDE = 64;

/** Who gets a lease, and since when it wanted it. */
export interface Waited {
  readonly wish: Wish;
  readonly actor: Actor;
  readonly sinceMs: number;
}

export interface LineDeps extends AcquisitionContext {
  readonly handoffMs: number;
  readonly deadlines: DueLists<Task>;
  /** Makes the handle of a granted hold. */
  lease(line: HoldLine, hold: Hold, task: Waited, handedOff: boolean, now?: Instant): HeldLease;
  /** A grant that nobody waits for any more. */
  giveBack(hold: Hold): void;
  waiting(task: Task): void;
  /** The line is empty and may be forgotten. */
  idle(line: LocalQueue): void;
}

export class LocalQueue implements TaskLine {
  readonly keys: readonly string[];
  readonly #deps: LineDeps;
  readonly #tasks = new TaskQueue();
  readonly #holds = new Set<Hold>();
  /** The last grant: the only one that may be handed on. */
  #newest: Hold | null = null;
  #turn: Acquisition | null = null;
  /** The task that the turn was opened for. */
  #turnOf: Task | null = null;
  /** Turns of readers or permits behind the head, which cannot conflict with it. */
  readonly #beside = new Map<Task, Acquisition>();
  /** The store has said that the key is busy: readers and permits behind the head are not asked for. */
  #isBlocked = false;
  #cancelSlice: (() => void) | null = null;

  constructor(keys: readonly string[], deps: LineDeps) {
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

  /** The line of a task whose first attempt is under way. */
  resume(
    task: Task,
    first: FirstAnswer,
    resolve: (lease: HeldLease) => void,
    reject: (error: LockError) => void,
  ): void {
    task.wait(this, this.#deps.deadlines, resolve, reject);
    this.#tasks.push(task);
    this.#ask(task, first);
  }

  /** A grant that came about beside the turn. */
  adopt(hold: Hold): void {
    hold.line = this;
    this.#take(hold);
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
      hold.remaining() >= hold.termMs * FRESH_SHARE
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
      this.#isBlocked = false;
      if (this.#holds.size === 0) this.#deps.idle(this);
      return;
    }
    if (this.#turn === null) {
      const own = this.#beside.get(head);
      if (own === undefined) {
        for (const hold of this.#holds) {
          if (this.#passable(hold, head)) return this.#askAtSliceEnd(hold);
        }
        this.#ask(head);
      } else {
        this.#beside.delete(head);
        this.#turn = own;
        this.#turnOf = head;
      }
    }
    if (this.#mayShare(head)) this.#askBeside(head);
  }

  /**
   * Whether more than one task may hold at once, and the store does so now: the last one was granted without
   * having to wait.
   */
  #mayShare({ wish }: Task): boolean {
    return (wish.mode === "shared" || wish.limit > 1) && this.#holds.size > 0 && !this.#isBlocked;
  }

  /** Asks for those behind the head that fit beside it: their round trips need not follow each other. */
  #askBeside(head: Task): void {
    let permits = 0;
    for (const hold of this.#holds) permits += hold.shape.permits;
    for (const task of this.#tasks.first(MOST_BESIDE)) {
      if (!sameShape(task.wish, head.wish)) return;
      permits += task.wish.permits;
      if (task.wish.limit > 1 && permits > task.wish.limit) return;
      if (task === head || this.#beside.has(task)) continue;
      const turn = this.#newTurn(task, null);
      this.#beside.set(task, turn);
      turn.start(false);
    }
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
      sameShape((this.#turn as Acquisition).shape, head.wish)
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

  #ask(head: Task, first: FirstAnswer | null = null): void {
    const turn = this.#newTurn(head, first);
    this.#turn = turn;
    this.#turnOf = head;
    turn.start(this.#holds.size > 0 && !this.#mayShare(head));
  }

  #newTurn(task: Task, first: FirstAnswer | null): Acquisition {
    const turn: Acquisition = new Acquisition(
      this.#deps,
      { keys: this.keys, shape: task.wish, label: task.wish.label, actor: task.actor.name },
      {
        granted: (hold) => this.#granted(turn, this.#taskOf(turn, task), hold),
        failed: (error) => this.#failed(turn, this.#taskOf(turn, task), error),
        busy: () => {
          this.#isBlocked = true;
          const waits = this.#taskOf(turn, task);
          if (waits !== null) this.#announce(waits);
        },
      },
      first,
    );
    return turn;
  }

  /** Whom a turn is for: the head, or the task that it was opened for beside the head. */
  #taskOf(turn: Acquisition, task: Task): Task | null {
    return this.#beside.get(task) === turn ? task : this.#tasks.head;
  }

  #announce(task: Task): void {
    if (!task.announced) this.#deps.waiting(task);
    task.announced = true;
  }

  #granted(turn: Acquisition, task: Task | null, hold: Hold): void {
    this.#forgetTurn(turn, task);
    if (turn.lastBusy === null) this.#isBlocked = false;
    if (task === null || !sameShape(task.wish, hold.shape)) {
      this.#deps.giveBack(hold);
    } else {
      this.#take(hold);
      this.#give(task, hold, false);
    }
    this.#advance();
  }

  #forgetTurn(turn: Acquisition, task: Task | null): void {
    if (this.#turn === turn) this.#turn = null;
    else if (task !== null && this.#beside.get(task) === turn) this.#beside.delete(task);
  }

  #failed(turn: Acquisition, task: Task | null, error: LockError): void {
    this.#forgetTurn(turn, task);
    if (task !== null) this.leave(task, error);
    else this.#advance();
  }

  #give(task: Task, hold: Hold, handedOff: boolean): void {
    this.#tasks.remove(task);
    task.granted(this.#deps.lease(this, hold, task, handedOff));
  }

  leave(task: Task, error: LockError): void {
    this.#tasks.remove(task);
    this.#beside.get(task)?.stop();
    this.#beside.delete(task);
    task.refused(error);
    this.#advance();
  }

  /** At its deadline the head looks one last time; the others know that somebody is before them. */
  expired(task: Task): void {
    const turn = this.#tasks.head === task ? this.#turn : (this.#beside.get(task) ?? null);
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
    const turn = this.#beside.get(task) ?? this.#turn;
    if (turn !== null && turn.lastError !== null) {
      return unaskedError(this.keys, waitedMs, turn.lastError);
    }
    return timeoutError(this.keys, waitedMs, { ...this.ownBusy(), ...turn?.lastBusy }, this.#tasks.size);
  }

  /** Who of this process holds the keys. */
  ownBusy(): Pick<Busy, "holders" | "holderCount"> {
    const shown = [...this.#holds].slice(0, SHOWN_HOLDERS).map((hold) => ({
      label: hold.lease?.label ?? hold.request.label,
      mode: hold.shape.mode,
      permits: hold.shape.permits,
      fence: hold.fences[0] as bigint,
      remainingMs: hold.remaining(),
      heldMs: this.#deps.system.monoMs() - hold.grantedAtMs,
    }));
    return { holders: shown, holderCount: this.#holds.size };
  }
}
