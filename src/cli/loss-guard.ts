// Ends COMMAND before its lease ends, so that it never runs beside the next holder.
// - A quarter of the window is left: SIGTERM. A little before the window ends: SIGKILL.
// - Revoked without force: SIGTERM, and the rest of the window until SIGKILL, because the key stays taken.
// - Revoked with force, or lost otherwise: SIGKILL.
// A signal counts even if the lease is renewed afterwards: COMMAND has not finished its work.

import { setTimeout as sleep } from "node:timers/promises";
import type { Lease, LockLostError, Locks } from "../surface.ts";
import type { Child } from "./child.ts";
import type { Watchdog } from "./watchdog.ts";
import { formatDuration } from "./format.ts";

export type OnLost = "term" | "kill" | "warn";

/** SIGKILL is sent this long before the window ends, because a process takes time to die. */
const SHORTEST_LEAD_MS = 20;
const LONGEST_LEAD_MS = 500;
const LEAD_SHARE = 1 / 16;
/** Limit for asking whether the key was freed by force: the next holder may run meanwhile. */
const INSPECT_MS = 500;

interface Parts {
  readonly locks: Locks;
  readonly lease: Lease;
  readonly child: Child;
  readonly watchdog: Watchdog;
  readonly onLost: OnLost;
  readonly report: (text: string) => void;
}

export class LossGuard {
  readonly #parts: Parts;
  readonly #leadMs: number;
  readonly #unsubscribe: (() => void)[] = [];
  #timer: NodeJS.Timeout | null = null;
  #hasSignalled = false;
  #isClosed = false;
  /** When the window ends, by performance.now(). */
  #endsAtMs = 0;
  #loss: LockLostError | null = null;

  constructor(parts: Parts) {
    this.#parts = parts;
    const { locks, lease } = parts;
    this.#leadMs = Math.min(LONGEST_LEAD_MS, Math.max(SHORTEST_LEAD_MS, lease.remaining * LEAD_SHARE));
    const lost = (): void => this.#lost();
    lease.signal.addEventListener("abort", lost, { once: true });
    this.#unsubscribe.push(
      () => lease.signal.removeEventListener("abort", lost),
      locks.on("endangered", (event) => this.#endangered(event.remainingMs)),
      locks.on("renewed", (event) => this.#setWindowEnd(event.remainingMs)),
    );
    this.#setWindowEnd(lease.remaining);
    if (lease.signal.aborted) this.#lost();
  }

  /**
   * Call it when COMMAND and its descendants have ended. Returns whether the lease was lost by then, or
   * COMMAND got a signal because of it.
   */
  close(): boolean {
    const { lease, child } = this.#parts;
    const lost = this.#hasSignalled || !lease.held;
    this.#isClosed = true;
    for (const off of this.#unsubscribe) off();
    if (this.#timer !== null) clearTimeout(this.#timer);
    // Descendants must not run without the lease.
    if (lost && this.#parts.onLost !== "warn") child.signalAll("SIGKILL");
    return lost;
  }

  /** Why the lease was lost, if it was. */
  get loss(): LockLostError | null {
    return this.#loss;
  }

  #setWindowEnd(remainingMs: number): void {
    this.#endsAtMs = performance.now() + remainingMs;
    if (this.#parts.onLost !== "warn") this.#parts.watchdog.deadline(remainingMs - this.#leadMs);
  }

  #endangered(remainingMs: number): void {
    const { child, onLost, report } = this.#parts;
    const signal = onLost === "kill" ? "SIGKILL" : "SIGTERM";
    const action = onLost === "warn" ? "COMMAND runs on" : `COMMAND gets ${signal}`;
    report(`the lease was not renewed and ends in ${formatDuration(remainingMs)}: ${action}`);
    if (onLost === "warn") return;
    this.#hasSignalled = true;
    child.signalAll(signal);
    this.#killBefore(remainingMs);
  }

  #killBefore(remainingMs: number): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#killIfDue(), Math.max(0, remainingMs - this.#leadMs));
  }

  /** If the lease was renewed meanwhile, COMMAND may take longer to end. */
  #killIfDue(): void {
    const { lease, child } = this.#parts;
    const { remaining } = lease;
    if (remaining > this.#leadMs + 1) this.#killBefore(remaining);
    else child.signalAll("SIGKILL");
  }

  #lost(): void {
    const { lease, onLost, report } = this.#parts;
    const loss = lease.signal.reason as LockLostError;
    this.#loss = loss;
    if (onLost === "warn")
      return report(`the lease was lost (${describeLoss(loss)}): COMMAND runs on without it`);
    this.#hasSignalled = true;
    if (onLost === "term" && loss.reason === "revoked") void this.#revoked(loss);
    else this.#kill(loss);
  }

  async #revoked(loss: LockLostError): Promise<void> {
    const { child, report } = this.#parts;
    const isKept = await this.#isKeyKept();
    if (this.#isClosed) return;
    const leftMs = this.#endsAtMs - performance.now();
    if (!isKept || leftMs <= this.#leadMs) return this.#kill(loss);
    report(
      `the lease was lost (${describeLoss(loss)}) and the key is free in ${formatDuration(leftMs)}: ` +
        "COMMAND gets SIGTERM",
    );
    child.signalAll("SIGTERM");
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => child.signalAll("SIGKILL"), leftMs - this.#leadMs);
  }

  /** Whether this process still holds the key in the store. After a revoke with force it does not. */
  async #isKeyKept(): Promise<boolean> {
    const { locks, lease } = this.#parts;
    const inspected = locks.inspect(lease.key).catch(() => null);
    const info = await Promise.race([inspected, sleep(INSPECT_MS, null, { ref: false })]);
    return info?.holders.some(({ fence }) => fence === lease.fence) === true;
  }

  #kill(loss: LockLostError): void {
    const { child, report } = this.#parts;
    child.signalAll("SIGKILL");
    report(`the lease was lost (${describeLoss(loss)}): COMMAND was killed`);
  }
}

function describeLoss({ reason, detail }: LockLostError): string {
  return detail === undefined ? reason : `${reason}: ${detail}`;
}
