// A lease. It has no timer and reads the clock each time to know whether it is held (P7). The lock
// manager makes all calls to the store.

import type { Actor } from "./actor.ts";
import type { Lease } from "../api.ts";
import { showCallers } from "../util/caller-frame.ts";
import type { Duration } from "../duration.ts";
import { InvalidArgumentError, type LockError, LockLostError } from "../errors.ts";
import type { LeaseEvent } from "../events.ts";
import type { Hold } from "./hold.ts";
import { showKey } from "../key.ts";
import type { AcquireSpec } from "../options.ts";
import type { LossReason, Mode } from "../store.ts";
import { printedAsJson } from "../util/inspect.ts";

/** The part of the lock manager that a lease needs. */
export interface LeaseOwner {
  release(lease: HeldLease): Promise<boolean>;
  extend(lease: HeldLease, ttl: Duration | undefined): Promise<void>;
  verify(lease: HeldLease): Promise<boolean>;
  /** Writes what the holder waits for into its record. null clears it. */
  note(hold: Hold, note: string | null): Promise<void>;
}

const LOSS_TEXT: Readonly<Record<LossReason, string>> = {
  expired: "its window ended before a renewal was confirmed",
  gone: "the store no longer knows this holder",
  revoked: "an operator revoked it",
  "max-hold": "it reached maxHold",
  session: "the store ended this process's session",
  closed: "its locks were closed",
};

export class HeldLease implements Lease {
  /** The lock manager of the lease. Equal keys of different lock managers are different locks. */
  readonly owner: LeaseOwner;
  readonly actor: Actor;
  readonly spec: AcquireSpec;
  /** One hold, or one per key if the store cannot take several keys in one step. */
  readonly holds: readonly Hold[];
  readonly keys: readonly string[];
  readonly grantedAtMs: number;
  /** The end of `maxHold`, by the monotonic clock. */
  readonly endsAtMs: number;
  readonly #fences: readonly bigint[];
  /** The handle of the caller. The sweep of unreleased leases removes this reference. */
  handle: object | null = null;
  #state: "held" | "released" | "lost" = "held";
  #lost: LockLostError | null = null;
  /** The reason of the signal, if the locks are being closed. */
  #closing: LockLostError | null = null;
  #controller: AbortController | null = null;
  #release: Promise<boolean> | null = null;
  /** The number of re-entries that are not released. */
  #joined = 0;
  /** The holder has released the lease, and a re-entry may still hold it. */
  #isReleased = false;

  constructor(owner: LeaseOwner, holds: readonly Hold[], spec: AcquireSpec, actor: Actor, nowMs: number) {
    this.owner = owner;
    this.actor = actor;
    this.spec = spec;
    this.holds = holds;
    this.keys =
      holds.length === 1 ? (holds[0] as Hold).request.keys : holds.flatMap((hold) => hold.request.keys);
    this.#fences = holds.length === 1 ? (holds[0] as Hold).fences : holds.flatMap((hold) => hold.fences);
    this.grantedAtMs = nowMs;
    this.endsAtMs = nowMs + spec.maxHoldMs;
    for (const hold of holds) hold.lease = this;
    actor.add(this);
  }

  get key(): string {
    return this.keys[0] as string;
  }

  get label(): string {
    return this.spec.label;
  }

  get mode(): Mode {
    return this.spec.mode;
  }

  get fence(): bigint {
    if (this.keys.length === 1) return this.#fences[0] as bigint;
    throw new InvalidArgumentError(
      `fence must be read with fenceOf(key), because this lease has ${this.keys.length} keys`,
      { key: this.key },
    );
  }

  fenceOf(key: string): bigint {
    const fence = this.#fences[this.keys.indexOf(key)];
    if (fence !== undefined) return fence;
    throw new InvalidArgumentError(
      `key must be one of ${this.keys.map(showKey).join(", ")}, got ${showKey(String(key))}`,
      { key: this.key },
    );
  }

  get held(): boolean {
    return this.remaining > 0;
  }

  get remaining(): number {
    return this.#isReleased ? 0 : this.leftMs;
  }

  get sections(): readonly HeldLease[] {
    return [this];
  }

  /** For how many ms the keys are certainly held, also by a re-entry that outlives this handle. */
  get leftMs(): number {
    if (this.#state !== "held") return 0;
    if (this.holds.length === 1) return (this.holds[0] as Hold).remaining();
    return Math.min(...this.holds.map((hold) => hold.remaining()));
  }

  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#lost !== null) this.#controller.abort(this.#lost);
    }
    return this.#controller.signal;
  }

  /** Aborts the signal although the lease is held, so that its callback stops. */
  abort(reason: LockError): void {
    if (!this.signal.aborted) this.#controller?.abort(reason);
  }

  /** The signal has aborted because the locks are being closed. */
  get isClosing(): boolean {
    return this.#closing !== null;
  }

  notifyClosed(): void {
    this.#closing ??= this.#lossError("closed", LOSS_TEXT.closed);
    this.abort(this.#closing);
  }

  /** Set once the lease was lost. */
  get lost(): LockLostError | null {
    return this.#lost;
  }

  assertHeld(): void {
    if (this.held) return;
    throw this.#lost ?? this.overError();
  }

  /** The error of a released lease. */
  overError(): LockLostError {
    return this.#lossError("gone", "it was released");
  }

  verify(): Promise<boolean> {
    return this.owner.verify(this);
  }

  extend(ttl?: Duration): Promise<void> {
    return this.owner.extend(this, ttl);
  }

  release(): Promise<boolean> {
    this.#release ??= this.#joined === 0 ? this.owner.release(this) : this.#leaveOthersInside();
    return this.#release;
  }

  /** Adds a re-entry. The key is released with the last handle. */
  join(): void {
    this.#joined += 1;
  }

  leave(): Promise<boolean> {
    this.#joined -= 1;
    if (this.#joined === 0 && this.#isReleased) return this.owner.release(this);
    return Promise.resolve(this.leftMs > 0);
  }

  #leaveOthersInside(): Promise<boolean> {
    const { held } = this;
    this.#isReleased = true;
    this.actor.delete(this);
    return Promise.resolve(held);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => {});
  }

  toJSON(): Record<string, unknown> {
    const fences = Object.fromEntries(this.keys.map((key, i) => [key, String(this.#fences[i])]));
    return {
      key: this.key,
      keys: this.keys,
      label: this.label,
      mode: this.mode,
      permits: this.spec.permits,
      limit: this.spec.limit,
      ...(this.keys.length === 1 ? { fence: String(this.#fences[0]) } : { fences }),
      held: this.held,
      // Rounded down, so that it never promises more than the window has left.
      remaining: Math.floor(this.remaining),
    };
  }

  /** The fields for events. */
  toEvent(): LeaseEvent {
    return { key: this.key, keys: this.keys, label: this.label, fence: this.#fences[0] as bigint };
  }

  /** The holder has released the lease: from now on `held` is false. */
  markReleased(): void {
    this.#state = "released";
    this.actor.delete(this);
  }

  /** Marks the lease as lost. Returns false if it had ended before. */
  markLost(reason: LossReason, detail: string | undefined): boolean {
    if (this.#state !== "held") return false;
    this.#state = "lost";
    const why = detail === undefined ? LOSS_TEXT[reason] : `${LOSS_TEXT[reason]}: ${detail}`;
    const closing = reason === "closed" ? this.#closing : null;
    this.#lost = closing ?? this.#lossError(reason, why, detail);
    this.actor.delete(this);
    this.#controller?.abort(this.#lost);
    return true;
  }

  #lossError(reason: LossReason, why: string, detail?: string): LockLostError {
    return new LockLostError(
      `the lease of ${this.keys.map(showKey).join(", ")} (${this.label}) has ended: ${why}. ` +
        "Stop changing what it protects, because another holder may have it now",
      { key: this.key, reason, fence: this.#fences[0], detail },
    );
  }
}

printedAsJson(HeldLease);
showCallers(HeldLease.prototype, "extend", "verify", "release");
