// The arithmetic of the certain window (P2): when it starts, how long it lasts, and what clocks that jump
// do to it.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Instant } from "../system.ts";
import {
  certainMs,
  defaultGraceMs,
  elapsedMs,
  extendedGraceMs,
  remainingMs,
  signalMarginMs,
} from "./validity-window.ts";

/** What chrony slews by at most, unless it is told otherwise. */
const SLEW = 0.083_333;

const at = (monoMs: number, bootMs: number = monoMs, wallMs: number = monoMs): Instant => ({
  monoMs,
  bootMs,
  wallMs,
});

/** The valid range of a ttl: 50 ms to 7 days. */
const ttl = fc.double({ min: 50, max: 7 * 24 * 3_600_000, noNaN: true });
const time = fc.integer({ min: -1_000_000, max: 1_000_000 });
const instant = fc.record({ monoMs: time, bootMs: time, wallMs: time });

describe("elapsedMs", () => {
  it.each([
    ["all clocks agree", at(130), 30],
    ["the machine was suspended: only the boot clock went on", at(130, 5_000, 130), 4_900],
    ["the wall clock was set forward", at(130, 130, 9_100), 9_000],
    ["the wall clock was set back", at(130, 130, -9_000), 30],
    ["the boot clock is coarse and behind", at(130, 126, 130), 30],
  ])("is what the fastest clock saw: %s", (_, now, expected) => {
    expect(elapsedMs(at(100), now, "store")).toBe(expected);
  });

  it("is the monotonic clock alone for a store on the same machine", () => {
    expect(elapsedMs(at(100), at(130, 5_000, 9_000), "machine")).toBe(30);
  });

  it("is never less than any clock saw", () => {
    fc.assert(
      fc.property(instant, instant, (since, now) => {
        const elapsed = elapsedMs(since, now, "store");
        expect(elapsed).toBeGreaterThanOrEqual(now.monoMs - since.monoMs);
        expect(elapsed).toBeGreaterThanOrEqual(now.bootMs - since.bootMs);
        expect(elapsed).toBeGreaterThanOrEqual(now.wallMs - since.wallMs);
        expect(elapsed).toBeGreaterThanOrEqual(elapsedMs(since, now, "machine"));
      }),
    );
  });
});

describe("certainMs", () => {
  it.each([
    [50, 48.9],
    [1_000, 997],
    [30_000, 29_939],
    [60_000, 59_879],
  ])("subtracts 0.2 %% drift and 1 ms from %d ms", (validMs, expected) => {
    expect(certainMs(validMs, "store")).toBeCloseTo(expected, 9);
  });

  it("subtracts nothing for a store on the same machine", () => {
    expect(certainMs(30_000, "machine")).toBe(30_000);
  });

  it("is positive and shorter than the store's window, also for a clock that is 0.2 % slow", () => {
    fc.assert(
      fc.property(ttl, (validMs) => {
        const certain = certainMs(validMs, "store");
        expect(certain).toBeGreaterThan(0);
        expect(certain / (1 - 0.002)).toBeLessThan(validMs);
      }),
    );
  });
});

describe("remainingMs", () => {
  const window = { since: at(1_000), validMs: 1_000 };

  it.each([
    ["at the start", at(1_000), 997],
    ["later", at(1_400), 597],
    ["just before the end", at(1_996), 1],
    ["at the end", at(1_997), 0],
    ["after the end", at(5_000), 0],
    ["after the machine was suspended", at(1_100, 5_000, 1_100), 0],
    ["after the wall clock was set forward", at(1_100, 1_100, 1_500), 497],
    ["after the wall clock was set back", at(1_100, 1_100, 0), 897],
  ])("counts from the send: %s", (_, now, expected) => {
    expect(remainingMs(window, now, "store")).toBe(expected);
  });

  it("ignores other clocks for a store on the same machine", () => {
    expect(remainingMs(window, at(1_100, 5_000, 9_000), "machine")).toBe(900);
  });

  it("is never negative and only falls while time passes", () => {
    const step = fc.integer({ min: 0, max: 10_000 });
    fc.assert(
      fc.property(instant, ttl, step, step, (since, validMs, first, second) => {
        const after = (ms: number): Instant => ({
          monoMs: since.monoMs + ms,
          bootMs: since.bootMs + ms,
          wallMs: since.wallMs + ms,
        });
        const one = remainingMs({ since, validMs }, after(first), "store");
        const two = remainingMs({ since, validMs }, after(first + second), "store");
        expect(two).toBeGreaterThanOrEqual(0);
        expect(two).toBeLessThanOrEqual(one);
        expect(one).toBeLessThanOrEqual(Math.max(0, validMs - first));
      }),
    );
  });
});

describe("signalMarginMs", () => {
  it.each([
    [50, 2],
    [100, 2],
    [1_000, 20],
    [2_500, 50],
    [30_000, 50],
  ])("is a fiftieth of %d ms, from 2 to 50 ms: %d", (validMs, expected) => {
    expect(signalMarginMs(validMs)).toBe(expected);
  });

  it("leaves most of the window to the holder", () => {
    fc.assert(
      fc.property(ttl, (validMs) => {
        expect(signalMarginMs(validMs)).toBeGreaterThanOrEqual(2);
        expect(signalMarginMs(validMs)).toBeLessThan(certainMs(validMs, "store") / 10);
      }),
    );
  });
});

describe("defaultGraceMs", () => {
  it.each([
    [50, 50],
    [500, 50],
    [501, 50.1],
    [3_000, 300],
    [10_000, 1_000],
    [30_000, 3_000],
    [3_600_000, 360_000],
  ])("of a ttl of %d ms is %d ms", (ttlMs, expected) => {
    expect(defaultGraceMs(ttlMs)).toBe(expected);
  });

  it("outlives what the holder believes on a server whose clock is slewed by 8.3 % (P2)", () => {
    fc.assert(
      fc.property(ttl, (ttlMs) => {
        const keptMs = (ttlMs + defaultGraceMs(ttlMs)) / (1 + SLEW);
        expect(keptMs).toBeGreaterThan(certainMs(ttlMs, "store"));
      }),
    );
  });
});

describe("extendedGraceMs", () => {
  it.each([
    ["a shorter ttl", { ttlMs: 30_000, graceMs: 3_000 }, 10_000, 3_000],
    ["the default", { ttlMs: 30_000, graceMs: 3_000 }, 3_600_000, 360_000],
    ["the shortest default", { ttlMs: 100, graceMs: 50 }, 60_000, 6_000],
    ["a smaller grace", { ttlMs: 30_000, graceMs: 300 }, 60_000, 600],
    ["a larger grace", { ttlMs: 30_000, graceMs: 10_000 }, 60_000, 10_000],
    ["none", { ttlMs: 30_000, graceMs: 0 }, 60_000, 0],
  ])("of %s", (_, taken, ttlMs, expected) => {
    expect(extendedGraceMs(taken, ttlMs)).toBe(expected);
  });

  it("of the default outlives what the holder of the longer lease believes (P2)", () => {
    fc.assert(
      fc.property(ttl, ttl, (takenMs, ttlMs) => {
        const graceMs = extendedGraceMs({ ttlMs: takenMs, graceMs: defaultGraceMs(takenMs) }, ttlMs);
        expect((ttlMs + graceMs) / (1 + SLEW)).toBeGreaterThan(certainMs(ttlMs, "store"));
      }),
    );
  });
});
