// What happens to the child when its lease is in danger or gone. Warned early (SIGTERM, with a quarter of
// the window left), ended early (SIGKILL, a little before the window ends): the child must be gone when the
// next holder starts.
// Revoked without force, the key stays taken until the window ends: the child is warned and gets the rest
// of the window.
// What was sent is never taken back: a child that was told to stop did not do its work, whatever happens to
// the lease.

import { setTimeout as sleep } from "node:timers/promises";
import type { Lease, LockLostError, Locks } from "../surface.ts";
import type { Child } from "./child.ts";
import type { Watchdog } from "./watchdog.ts";
import { time } from "./words.ts";

export type OnLost = "term" | "kill" | "warn";

/** How long before the end of its window the child is killed: a process takes its time to die. */
const SHORTEST_LEAD_MS = 20;
const LONGEST_LEAD_MS = 500;
const LEAD_SHARE = 1 / 16;
/**
 * How long the store may take to say whether the key was freed by force. The next holder may be at work
 * meanwhile.
 */
const INSPECT_MS = 500;

interface Parts {
  readonly locks: Locks;
  readonly lease: Lease;
  readonly child: Child;
  readonly watchdog: Watchdog;
  readonly onLost: OnLost;
  readonly say: (text: string) => void;
}

export class LossGuard {
  readonly #parts: Parts;
  readonly #leadMs: number;
  readonly #offs: (() => void)[] = [];
  #timer: NodeJS.Timeout | null = null;
  #cutShort = false;
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
    this.#offs.push(
      () => lease.signal.removeEventListener("abort", lost),
      locks.on("endangered", (event) => this.#endangered(event.remainingMs)),
      locks.on("renewed", (event) => this.#windowIs(event.remainingMs)),
    );
    this.#windowIs(lease.remaining);
    if (lease.signal.aborted) this.#lost();
  }

  /**
   * Call it when the child and what it left running have ended. True when the lease was gone by then, or
   * the child was ended on its account.
   */
  close(): boolean {
    const { lease, child } = this.#parts;
    const lost = this.#cutShort || !lease.held;
    this.#isClosed = true;
    for (const off of this.#offs) off();
    if (this.#timer !== null) clearTimeout(this.#timer);
    // What it started runs unprotected.
    if (lost && this.#parts.onLost !== "warn") child.signalAll("SIGKILL");
    return lost;
  }

  /** Why the lease was lost, if it was. */
  get loss(): LockLostError | null {
    return this.#loss;
  }

  #windowIs(remainingMs: number): void {
    this.#endsAtMs = performance.now() + remainingMs;
    if (this.#parts.onLost !== "warn") this.#parts.watchdog.deadline(remainingMs - this.#leadMs);
  }

  #endangered(remainingMs: number): void {
    const { child, onLost, say } = this.#parts;
    const signal = onLost === "kill" ? "SIGKILL" : "SIGTERM";
    const done = onLost === "warn" ? "COMMAND runs on" : `COMMAND gets ${signal}`;
    say(`the lease was not renewed and ends in ${time(remainingMs)}: ${done}`);
    if (onLost === "warn") return;
    this.#cutShort = true;
    child.signalAll(signal);
    this.#killBefore(remainingMs);
  }

  #killBefore(remainingMs: number): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#killIfDue(), Math.max(0, remainingMs - this.#leadMs));
  }

  /** Renewed in the meantime: it may take longer to stop. */
  #killIfDue(): void {
    const { lease, child } = this.#parts;
    const { remaining } = lease;
    if (remaining > this.#leadMs + 1) this.#killBefore(remaining);
    else child.signalAll("SIGKILL");
  }

  #lost(): void {
    const { lease, onLost, say } = this.#parts;
    const loss = lease.signal.reason as LockLostError;
    this.#loss = loss;
    if (onLost === "warn") return say(`the lease was lost (${cause(loss)}): COMMAND runs on without it`);
    this.#cutShort = true;
    if (onLost === "term" && loss.reason === "revoked") void this.#revoked(loss);
    else this.#kill(loss);
  }

  async #revoked(loss: LockLostError): Promise<void> {
    const { child, say } = this.#parts;
    const isKept = await this.#isKeyKept();
    if (this.#isClosed) return;
    const leftMs = this.#endsAtMs - performance.now();
    if (!isKept || leftMs <= this.#leadMs) return this.#kill(loss);
    say(`the lease was lost (${cause(loss)}) and the key is free in ${time(leftMs)}: COMMAND gets SIGTERM`);
    child.signalAll("SIGTERM");
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => child.signalAll("SIGKILL"), leftMs - this.#leadMs);
  }

  /** Whether the store still has us as its holder: a revoke with force has freed the key. */
  async #isKeyKept(): Promise<boolean> {
    const { locks, lease } = this.#parts;
    const seen = locks.inspect(lease.key).catch(() => null);
    const info = await Promise.race([seen, sleep(INSPECT_MS, null, { ref: false })]);
    return info?.holders.some(({ fence }) => fence === lease.fence) === true;
  }

  #kill(loss: LockLostError): void {
    const { child, say } = this.#parts;
    child.signalAll("SIGKILL");
    say(`the lease was lost (${cause(loss)}): COMMAND was killed`);
  }
}

function cause({ reason, detail }: LockLostError): string {
  return detail === undefined ? reason : `${reason}: ${detail}`;
}
