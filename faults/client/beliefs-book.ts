// Which leases this client has, until when it may believe in each, and the journal of it. Its one rule of honesty: the
// clock is read before the lease, so that a process stopped in between writes down an earlier end, never a later one.

import { type Lease, LockLostError } from "../../src/index.ts";
import { type Journal, nowMs } from "../journal.ts";

export type ClientLease = Pick<
  Lease,
  "key" | "keys" | "mode" | "fenceOf" | "held" | "remaining" | "signal" | "release" | "extend" | "verify"
>;

/** Two readings further apart than this are repeated: the process did not run in between. */
const TIGHT_MS = 1;
const READINGS = 5;
/** Reading two clocks is not one step. */
const BLUR_MS = 2;

export class BeliefsBook {
  readonly #name: string;
  readonly #journal: Journal;
  readonly #changed: (leases: number) => void;
  readonly #open = new Map<string, { lease: ClientLease; endMs: number }>();

  constructor(name: string, journal: Journal, changed: (leases: number) => void) {
    this.#name = name;
    this.#journal = journal;
    this.#changed = changed;
  }

  get size(): number {
    return this.#open.size;
  }

  /** acquire has resolved. False when its window is over already, which only a stopped process may see (P8). */
  granted(ask: string, keys: readonly string[], lease: ClientLease): boolean {
    const { at, endMs } = reading(lease);
    const name = nameOf(lease);
    if (endMs <= at) {
      this.#journal.write({ type: "over-at-grant", at, client: this.#name, what: `${ask} ${name}` });
      this.#journal.write({ type: "refused", at, client: this.#name, ask, code: "over" });
      return false;
    }
    const fences = keys.map((key) => String(lease.fenceOf(key)));
    const remainingMs = endMs - at;
    this.#journal.write({ type: "granted", at, client: this.#name, ask, lease: name, fences, remainingMs });
    this.#open.set(name, { lease, endMs });
    this.#changed(this.#open.size);
    this.#listen(name, lease);
    return true;
  }

  renewed(name: string): void {
    const entry = this.#open.get(name);
    if (entry === undefined) return;
    const { at, endMs } = reading(entry.lease);
    if (endMs <= at) return;
    entry.endMs = endMs;
    this.#journal.write({ type: "renewed", at, client: this.#name, lease: name, remainingMs: endMs - at });
  }

  /** By the signal and not by the event of that name: it is what users act on, and the first to be told. */
  #listen(name: string, lease: ClientLease): void {
    const { signal } = lease;
    const lost = (): void => {
      const at = nowMs();
      this.#journal.write({ type: "notified", at, client: this.#name, lease: name });
      // Its locks are being closed, and it is told to stop: it still has the key, and gives it back.
      if (lease.held) return this.lettingGo(lease);
      const reason = signal.reason instanceof LockLostError ? signal.reason.reason : String(signal.reason);
      this.#journal.write({ type: "lost", at, client: this.#name, lease: name, reason });
      this.#forget(name);
    };
    if (signal.aborted) lost();
    else signal.addEventListener("abort", lost, { once: true });
  }

  /** To be called before release(): from here on it is not believed in. */
  lettingGo(lease: ClientLease): void {
    const at = nowMs();
    const name = nameOf(lease);
    if (!this.#open.has(name)) return;
    if (lease.held) this.#journal.write({ type: "letting-go", at, client: this.#name, lease: name });
    this.#forget(name);
  }

  lettingGoOfAll(): void {
    for (const { lease } of [...this.#open.values()]) this.lettingGo(lease);
  }

  released(lease: ClientLease, answer: boolean | null): void {
    this.#journal.write({ type: "released", at: nowMs(), client: this.#name, lease: nameOf(lease), answer });
  }

  /** `held` must be right in the very tick after a stalled event loop (P7). */
  look(): void {
    for (const [name, { lease, endMs }] of [...this.#open]) {
      const at = nowMs();
      if (at <= endMs + BLUR_MS || !lease.held) continue;
      const what = `${name} is held ${(at - endMs).toFixed(1)} ms after its last known end`;
      this.#journal.write({ type: "outlived", at, client: this.#name, what });
      this.#forget(name);
    }
  }

  #forget(name: string): void {
    if (this.#open.delete(name)) this.#changed(this.#open.size);
  }
}

function nameOf(lease: ClientLease): string {
  return `${lease.key}@${lease.fenceOf(lease.key)}`;
}

/** Each single reading ends too early or right, so the latest end is the best one. `at` is of the first. */
function reading(lease: ClientLease): { readonly at: number; readonly endMs: number } {
  const first = nowMs();
  let endMs = Number.NEGATIVE_INFINITY;
  let at = first;
  for (let i = 0; i < READINGS; i += 1) {
    const remainingMs = lease.remaining;
    if (remainingMs > 0) endMs = Math.max(endMs, at + remainingMs);
    const afterMs = nowMs();
    if (remainingMs <= 0 || afterMs - at < TIGHT_MS) break;
    at = afterMs;
  }
  return { at: first, endMs };
}
