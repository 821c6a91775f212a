// Pure arithmetic of the certain window (P2): from when until when a holder may believe that it holds.
// 1. It starts when the request that the grant counts from was *sent*: the store cannot have started later.
// 2. It lasts what the store said, less drift (clocks may run at different rates) and margin (timers fire late).
// 3. Elapsed time is the largest that any clock saw, because each of them can be made to stand still.

import type { Instant } from "./system.ts";

export interface Window {
  readonly since: Instant;
  readonly validMs: number;
}

/** Quartz is good to 100 ppm and NTP slews by at most 500; 2,000 covers two machines at their worst. */
const DRIFT = 0.002;

export type Clock = "store" | "machine";

export function elapsedMs(since: Instant, now: Instant, clock: Clock): number {
  const mono = now.monoMs - since.monoMs;
  if (clock === "machine") return mono;
  return Math.max(mono, now.bootMs - since.bootMs, now.wallMs - since.wallMs);
}

/** How long a grant of `validMs` may be believed in, counted from its send. */
export function certainMs(validMs: number, clock: Clock): number {
  return clock === "machine" ? validMs : validMs - validMs * DRIFT - 1;
}

export function remainingMs(window: Window, now: Instant, clock: Clock): number {
  return Math.max(0, certainMs(window.validMs, clock) - elapsedMs(window.since, now, clock));
}

/** How long before the end the loss is signalled, so that the signal is out before the window is over (P7). */
export function signalMarginMs(validMs: number): number {
  return Math.min(50, Math.max(2, validMs / 50));
}

/** How much longer than the ttl the store keeps the key, so that a holder lets go first. */
export function defaultGraceMs(ttlMs: number): number {
  return Math.min(1_000, Math.max(50, ttlMs / 10));
}
