// The arithmetic of the window (P2): the time in which a holder is certain that it holds.
// 1. The window starts when the attempt or renewal was *sent*, because the store cannot have started earlier.
// 2. It lasts as long as the store granted, minus drift (clocks run at different rates) and a margin.
// 3. The elapsed time is the largest that any of our clocks shows, because each of them can stop.

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

/** The length of the window of a grant of `validMs`, counted from its send. */
export function certainMs(validMs: number, clock: Clock): number {
  return clock === "machine" ? validMs : validMs - validMs * DRIFT - 1;
}

export function remainingMs(window: Window, now: Instant, clock: Clock): number {
  return Math.max(0, certainMs(window.validMs, clock) - elapsedMs(window.since, now, clock));
}

/** How long before the end of the window the signal aborts, so that its listeners run before the end (P7). */
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
 * The grace of a lease that is extended beyond its first ttl: the same share of the new ttl, up to the
 * default. Never less than before.
 */
export function extendedGraceMs(
  taken: { readonly ttlMs: number; readonly graceMs: number },
  ttlMs: number,
): number {
  if (ttlMs <= taken.ttlMs) return taken.graceMs;
  const sameShare = (taken.graceMs / taken.ttlMs) * ttlMs;
  return Math.max(taken.graceMs, Math.min(sameShare, defaultGraceMs(ttlMs)));
}
