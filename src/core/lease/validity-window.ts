// Pure arithmetic of the certain window (P2): from when until when a holder may believe that it holds.
// 1. It starts when the request that the grant counts from was *sent*: the store cannot have started later.
// 2. It lasts what the store said, less drift (clocks may run at different rates) and margin (timers fire late).
// 3. Elapsed time is the largest that any clock saw, because each of them can be made to stand still.

import type { Instant } from "../system.ts";

export interface Window {
  readonly since: Instant;
  readonly validMs: number;
}

/**
 * Two clocks that nobody corrects: quartz is good to 100 ppm, and the kernel's NTP discipline adds at most
 * 500. A clock that is being slewed, by chrony up to 83,333 ppm, is covered by the default grace.
 */
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

/**
 * How much longer than the ttl the store keeps the key, so that the holder stops first. A server clock that
 * is slewed by 8.3 % counts 1.1 ttl in 1.015 ttl: a share of the ttl covers it, a fixed time would not (P2).
 */
export function defaultGraceMs(ttlMs: number): number {
  return Math.max(50, ttlMs / 10);
}

/**
 * The grace of a lease that is extended beyond the ttl that it was taken with: the same share of the new
 * ttl, up to the default. Never less than it was.
 */
export function extendedGraceMs(
  taken: { readonly ttlMs: number; readonly graceMs: number },
  ttlMs: number,
): number {
  if (ttlMs <= taken.ttlMs) return taken.graceMs;
  const sameShare = (taken.graceMs / taken.ttlMs) * ttlMs;
  return Math.max(taken.graceMs, Math.min(sameShare, defaultGraceMs(ttlMs)));
}
