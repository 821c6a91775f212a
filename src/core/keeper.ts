// What happens at one open store: lines of waiting tasks, holds, and the handles made of them. `locks.ts` checks what the
// caller asked for and comes here; nothing here reads an option or a URL.

import type { Actor } from "./actor.ts";
import { attemptOnce } from "./acquire.ts";
import { Alarm } from "./alarm.ts";
import { type Caller, callTimeoutMs } from "./call.ts";
import type { Duration } from "./duration.ts";
import { LockError, type LockLostError, StoreUnavailableError } from "./errors.ts";
import type { Events } from "./events.ts";
import type { Hold } from "./hold.ts";
import { Holds } from "./holds.ts";
import { showKey } from "./key.ts";
import { HeldLease, type LeaseKeeper } from "./lease.ts";
import { Line, type LineDeps, timeoutError, type Waited } from "./line.ts";
import { acquireEach, tryEach } from "./multi.ts";
import { readTtl, type Wish } from "./options.ts";
import type { HolderInfo, OpenStore } from "./store.ts";
import type { System } from "./system.ts";
import { Task } from "./task.ts";

/** How long `close` waits for a store that does not answer. */
const CLOSE_MS = 2_000;

export class Keeper implements LeaseKeeper, LineDeps {
  readonly store: OpenStore;
  readonly system: System;
  readonly caller: Caller;
  readonly holds: Holds;
  readonly handoffMs: number;
  readonly deadlines: Alarm<Task>;
  readonly #events: Events;
  readonly #lines = new Map<string, Line>();

  constructor(store: OpenStore, caller: Caller, system: System, events: Events, handoffMs: number) {
    this.store = store;
    this.system = system;
    this.#events = events;
    this.handoffMs = handoffMs;
    this.caller = caller;
    this.deadlines = new Alarm<Task>(system, (due) => {
      for (const task of due) task.expire();
    });
    this.holds = new Holds(store, this.caller, system, events, (hold) => this.#ended(hold));
  }

  acquire(keys: readonly string[], wish: Wish, actor: Actor, sinceMs: number): Promise<HeldLease> {
    if (keys.length === 1 || this.store.guarantees.kinds.includes("multi")) {
      return this.#acquireLine(keys, wish, actor, sinceMs);
    }
    const one = (key: string): Promise<HeldLease> => this.#acquireLine([key], wish, actor, sinceMs);
    return acquireEach(keys, one).then((leases) => this.#join(leases, wish, actor));
  }

  async tryAcquire(keys: readonly string[], wish: Wish, actor: Actor): Promise<HeldLease | null> {
    if (keys.length > 1 && !this.store.guarantees.kinds.includes("multi")) {
      const leases = await tryEach(keys, async (key) => {
        const answer = await this.#once([key], wish, actor);
        return answer instanceof HeldLease ? answer : null;
      });
      return leases === null ? null : this.#join(leases, wish, actor);
    }
    const answer = await this.#once(keys, wish, actor);
    return answer instanceof HeldLease ? answer : null;
  }

  async release(lease: HeldLease): Promise<boolean> {
    if (!lease.held) return false;
    lease.markReleased();
    const heldMs = this.system.monoMs() - lease.grantedAtMs;
    const hold = lease.holds[0] as Hold;
    const handedOff = lease.holds.length === 1 && hold.line !== null && hold.line.pass(hold);
    try {
      if (handedOff) return true;
      return await (lease.holds.length === 1 ? this.#releaseHold(hold) : this.#releaseAll(lease));
    } finally {
      this.#events.emit("released", () => ({ ...lease.toEvent(), heldMs, handedOff }));
    }
  }

  async extend(lease: HeldLease, ttl: Duration | undefined): Promise<void> {
    lease.assertHeld();
    await Promise.all(
      lease.holds.map(async (hold) => {
        const answer = await this.holds.renewal.now(hold, ttl === undefined ? hold.ttlMs : readTtl(ttl));
        if (answer.state === "renewed" || answer.state === "lost") return;
        throw new StoreUnavailableError(`the store could not extend the lease of ${showKey(lease.key)}`, {
          key: lease.key,
          cause: answer.state === "unknown" ? answer.cause : undefined,
        });
      }),
    );
    lease.assertHeld();
  }

  async verify(lease: HeldLease): Promise<boolean> {
    if (!lease.held) return false;
    const owned = await Promise.all(
      lease.holds.map((hold) =>
        this.caller.call("verification", hold.request.keys[0], callTimeoutMs(hold.ttlMs), (io) =>
          this.store.owns(hold.request, hold.cookie, io),
        ),
      ),
    );
    lease.holds.forEach((hold, i) => {
      if (!owned[i]) this.holds.lost(hold, "gone");
    });
    return lease.held;
  }

  async close(): Promise<void> {
    for (const line of [...this.#lines.values()]) line.close();
    const leases = new Set(this.holds.all().flatMap((hold) => hold.lease ?? []));
    await Promise.allSettled([...leases].map((lease) => lease.release()));
    await this.holds.abandonment.settled(CLOSE_MS);
    this.holds.stop();
    this.deadlines.stop();
    // A store that cannot even close is left to itself: there is nothing more to give back.
    await this.caller.call("close", undefined, CLOSE_MS, () => this.store.close()).catch(() => {});
  }

  lease(line: Line, hold: Hold, task: Waited, handedOff: boolean): HeldLease {
    const nowMs = this.system.monoMs();
    const lease = new HeldLease(this, [hold], task.wish, task.actor, nowMs);
    if (handedOff) {
      this.holds.passed(hold);
    } else {
      hold.line = line;
      this.holds.started(hold);
    }
    this.#events.emit("acquired", () => ({ ...lease.toEvent(), waitedMs: nowMs - task.sinceMs, handedOff }));
    return lease;
  }

  giveBack(hold: Hold): void {
    this.holds.end(hold);
    this.holds.abandonment.add(hold.request);
  }

  waiting(task: Task): void {
    this.#events.emit("waiting", () => ({
      key: task.keys[0] as string,
      keys: task.keys,
      label: task.wish.label,
    }));
  }

  idle(line: Line): void {
    if (this.#lines.get(line.name) === line) this.#lines.delete(line.name);
  }

  #acquireLine(keys: readonly string[], wish: Wish, actor: Actor, sinceMs: number): Promise<HeldLease> {
    if (wish.waitMs === 0) return this.#acquireNow(keys, wish, actor, sinceMs);
    return this.#line(keys).enter(new Task(keys, wish, actor, sinceMs, sinceMs + wish.waitMs));
  }

  async #acquireNow(keys: readonly string[], wish: Wish, actor: Actor, sinceMs: number): Promise<HeldLease> {
    const answer = await this.#once(keys, wish, actor);
    if (answer instanceof HeldLease) return answer;
    throw timeoutError(keys, Math.round(this.system.monoMs() - sinceMs), answer, 0);
  }

  /** One attempt: a lease, or who holds it. */
  async #once(keys: readonly string[], wish: Wish, actor: Actor): Promise<HeldLease | readonly HolderInfo[]> {
    const line = this.#line(keys);
    if (line.busyFor(wish)) return line.ownHolders();
    const sinceMs = this.system.monoMs();
    try {
      const answer = await attemptOnce(this, { keys, shape: wish, label: wish.label, actor: actor.name });
      if ("busy" in answer) return answer.busy.holders ?? [];
      return this.#line(keys).adopt(answer.hold, { wish, actor, sinceMs });
    } finally {
      line.forgetIfIdle();
    }
  }

  /** One handle over the leases of several keys. */
  #join(leases: readonly HeldLease[], wish: Wish, actor: Actor): HeldLease {
    for (const lease of leases) lease.markReleased();
    const holds = leases.flatMap((lease) => lease.holds);
    return new HeldLease(this, holds, wish, actor, this.system.monoMs());
  }

  async #releaseAll(lease: HeldLease): Promise<boolean> {
    const answers = await Promise.allSettled(lease.holds.map((one) => this.#releaseHold(one)));
    const failed = answers.find((answer) => answer.status === "rejected");
    if (failed !== undefined) throw failed.reason;
    return answers.every((answer) => answer.status === "fulfilled" && answer.value);
  }

  async #releaseHold(hold: Hold): Promise<boolean> {
    const told = this.caller.call("release", hold.request.keys[0], callTimeoutMs(hold.ttlMs), (io) =>
      this.store.release(hold.request, hold.cookie, { lastFences: hold.fences }, io),
    );
    // After the release has left: a task of this process that waits must not get its place in line before it.
    this.holds.end(hold);
    try {
      return (await told) === "released";
    } catch (error) {
      this.holds.abandonment.add(hold.request);
      const detail = LockError.is(error) ? error.message : String(error);
      throw new StoreUnavailableError(
        `the release of ${showKey(hold.request.keys[0] as string)} could not be confirmed, so the key ends with its ttl at the latest: ${detail}`,
        { key: hold.request.keys[0], cause: error },
      );
    }
  }

  #ended(hold: Hold): void {
    hold.line?.ended(hold);
  }

  #line(keys: readonly string[]): Line {
    const name = keys.length === 1 ? `1${keys[0]}` : `n${JSON.stringify(keys)}`;
    let line = this.#lines.get(name);
    if (line === undefined) {
      line = new Line(name, keys, this);
      this.#lines.set(name, line);
    }
    return line;
  }
}

/** The error of a lease that ended while its callback ran, carrying what the callback returned. */
export function lostWith(lease: HeldLease, result: unknown): LockLostError | null {
  if (lease.held || lease.lost === null) return null;
  lease.lost.result = result;
  return lease.lost;
}
