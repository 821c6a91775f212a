// All holds of this process in one store. Every hold begins and ends here, and this file notifies the
// timers, the queue, the lease and the event listeners of both exactly once.

import { Abandonment } from "./abandonment.ts";
import type { Caller } from "../util/store-call.ts";
import type { Events } from "../events.ts";
import { Hold, type HoldOwner } from "./hold.ts";
import type { HeldLease } from "./lease.ts";
import { LeaseMonitor } from "./lease-monitor.ts";
import type { LockSpec } from "../options.ts";
import { Renewal } from "./renewal.ts";
import type { ClockJump, Grant, LossReason, OpenStore, Request } from "../store.ts";
import type { Instant, System } from "../system.ts";
import { type Clock, remainingMs } from "./validity-window.ts";

export class HoldRegistry implements HoldOwner {
  readonly clock: Clock;
  readonly longestMs: number;
  readonly renewal: Renewal;
  readonly abandonment: Abandonment;
  readonly #system: System;
  readonly #events: Events;
  readonly #loss: LeaseMonitor;
  #first: Hold | null = null;
  #last: Hold | null = null;
  #size = 0;
  /** The holds by id. Built when the store first reports a loss. */
  #byId: Map<string, Hold> | null = null;
  /** Revoked leases that their owner has not released yet, each with the function that abandons its keys. */
  readonly #revoked = new Map<HeldLease, () => void>();
  readonly #onEnd: (hold: Hold) => void;
  readonly #unlisten: () => void;

  constructor(store: OpenStore, caller: Caller, system: System, events: Events, onEnd: (hold: Hold) => void) {
    this.clock = store.guarantees.clock;
    this.longestMs = store.guarantees.longestMs ?? Number.POSITIVE_INFINITY;
    this.#system = system;
    this.#events = events;
    this.#onEnd = onEnd;
    this.#loss = new LeaseMonitor(system, this);
    this.renewal = new Renewal(store, caller, system, this);
    this.abandonment = new Abandonment(store, caller, system);
    this.#unlisten =
      store.onLoss?.((id, reason, detail) => {
        const hold = this.#find(id);
        if (hold !== undefined) this.lost(hold, reason, detail);
      }) ?? (() => {});
  }

  now(): Instant {
    if (this.clock === "store") return this.#system.now();
    const monoMs = this.#system.monoMs();
    return { monoMs, bootMs: monoMs, wallMs: monoMs };
  }

  /** Makes a hold of a grant, or returns null if the grant arrived after the end of its window (P2). */
  begin(
    request: Request,
    spec: LockSpec,
    grant: Grant,
    sentAt: Instant,
    now: Instant = this.now(),
  ): Hold | null {
    if (remainingMs({ since: sentAt, validMs: grant.validMs }, now, this.clock) <= 0) return null;
    const hold = new Hold(this, request, spec, grant, sentAt, now.monoMs);
    hold.previous = this.#last;
    if (this.#last === null) this.#first = hold;
    else this.#last.next = hold;
    this.#last = hold;
    this.#size += 1;
    this.#byId?.set(request.id, hold);
    return hold;
  }

  #remove(hold: Hold): void {
    const { previous, next } = hold;
    if (previous === null) this.#first = next;
    else previous.next = next;
    if (next === null) this.#last = previous;
    else next.previous = previous;
    hold.previous = null;
    hold.next = null;
    this.#size -= 1;
    this.#byId?.delete(hold.request.id);
  }

  #find(id: string): Hold | undefined {
    this.#byId ??= new Map(this.all().map((hold) => [hold.request.id, hold]));
    return this.#byId.get(id);
  }

  /** A hold has its first lease. */
  started(hold: Hold, now: Instant): void {
    this.#loss.watch(hold, now);
    this.renewal.begin(hold);
  }

  /** A hold has another lease, whose `maxHold` may end earlier. */
  passed(hold: Hold): void {
    this.renewal.passed(hold);
    if (hold.lease !== null && hold.lease.spec.maxHoldMs !== Number.POSITIVE_INFINITY) this.#loss.watch(hold);
  }

  /** Ends a hold whose key the caller releases in the store. */
  end(hold: Hold): void {
    if (hold.ended) return;
    hold.end();
    this.#loss.forget(hold);
    this.renewal.forget(hold);
    this.#remove(hold);
    this.#onEnd(hold);
  }

  renewed(hold: Hold): void {
    this.#loss.watch(hold);
    const lease = hold.lease;
    if (lease === null) return;
    if (!this.#events.hears("renewed")) return;
    this.#events.emit("renewed", () => ({ ...lease.toEvent(), remainingMs: lease.remaining }));
  }

  jumped(jump: ClockJump): void {
    this.#events.emit("clock", () => jump);
  }

  endangered(hold: Hold, left: number): void {
    const lease = hold.lease;
    if (lease === null) return;
    this.#events.emit("endangered", () => ({ ...lease.toEvent(), remainingMs: left }));
  }

  /** Ends a lost hold, and abandons it until the store acknowledges that (P6). */
  lost(hold: Hold, reason: LossReason, detail?: string): void {
    // The window of a revoked hold ends here with the reason "expired".
    const leftMs = reason === "revoked" ? hold.remaining() : 0;
    if (hold.ended) return;
    const lease = hold.lease;
    const mayCleanUp = reason === "revoked" && lease !== null;
    // The holder may release as soon as its signal aborts, which is before its keys are abandoned.
    if (mayCleanUp) this.#revoked.set(lease, () => {});
    // Notify the holder and all listeners before the store: nobody else may get the key while the holder
    // still believes that it holds the key.
    if (lease !== null && lease.markLost(reason, detail)) {
      const heldMs = this.#system.monoMs() - lease.grantedAtMs;
      this.#events.emit("lost", () => ({ ...lease.toEvent(), reason, heldMs }));
    }
    // A lease of several keys holds all or none of them, so abandon the others too.
    const ended = (lease?.holds ?? [hold]).filter((one) => !one.ended);
    for (const one of ended) this.end(one);
    const abandon = (): void => ended.forEach((one) => this.abandonment.add(one.request));
    if (mayCleanUp && this.#revoked.has(lease)) this.#keepUntilReleased(lease, abandon, leftMs);
    else abandon();
  }

  /**
   * After a revocation without force, the key stays taken until the holder releases it or its window
   * ends, so that the holder can clean up. The lease cannot be renewed any more.
   */
  #keepUntilReleased(lease: HeldLease, abandon: () => void, leftMs: number): void {
    const cancel = this.#system.after(leftMs, () => this.finishRevoked(lease), "background");
    this.#revoked.set(lease, () => {
      cancel();
      abandon();
    });
  }

  /** The owner has released a lost lease. */
  finishRevoked(lease: HeldLease): void {
    const abandon = this.#revoked.get(lease);
    this.#revoked.delete(lease);
    abandon?.();
  }

  finishAllRevoked(): void {
    for (const lease of [...this.#revoked.keys()]) this.finishRevoked(lease);
  }

  /**
   * Marks a lease as lost because its locks are being closed. Its holds end when the caller releases them.
   */
  loseToClose(lease: HeldLease): void {
    if (!lease.markLost("closed", undefined)) return;
    const heldMs = this.#system.monoMs() - lease.grantedAtMs;
    this.#events.emit("lost", () => ({ ...lease.toEvent(), reason: "closed", heldMs }));
  }

  get size(): number {
    return this.#size;
  }

  all(): Hold[] {
    const all: Hold[] = [];
    for (let hold = this.#first; hold !== null; hold = hold.next) all.push(hold);
    return all;
  }

  stop(): void {
    this.#unlisten();
    this.#loss.stop();
    this.renewal.stop();
    this.abandonment.stop();
  }
}
