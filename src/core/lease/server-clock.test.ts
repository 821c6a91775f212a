import { expect, test } from "vitest";
import { ServerClock } from "./server-clock.ts";
import { ServerClocks } from "./server-clocks.ts";
import type { ClockJump } from "../store.ts";

/** A reading that took so long, of a server that is ahead by so much. */
function reading(sentMs: number, tookMs: number, aheadMs: number) {
  return { serverMs: sentMs + tookMs / 2 + aheadMs, sentMs, receivedMs: sentMs + tookMs };
}

test("a slow answer is no jump, and neither is the first one", () => {
  const clock = new ServerClock();
  expect(clock.movedMs(reading(0, 10, 5_000), 100)).toBe(0);
  clock.take(reading(0, 10, 5_000));
  expect(clock.movedMs(reading(1_000, 4_000, 5_000), 100)).toBe(0);
  expect(clock.movedMs(reading(1_000, 4_000, 6_500), 100)).toBe(0);
});

test("a clock that was set forward or back is seen by as much as is certain", () => {
  const clock = new ServerClock();
  clock.take(reading(0, 10, 0));
  expect(clock.movedMs(reading(1_000, 10, 22_000), 100)).toBeGreaterThan(21_900);
  expect(clock.movedMs(reading(1_000, 10, -22_000), 100)).toBeLessThan(-21_900);
  expect(clock.movedMs(reading(1_000, 10, 90), 100)).toBe(0);
});

test("a clock that runs faster is followed, and one that jumped is believed from then on", () => {
  const clock = new ServerClock();
  for (let at = 0; at < 100; at += 1) {
    const next = reading(at * 10_000, 2, at * 40);
    expect(clock.movedMs(next, 100)).toBe(0);
    clock.take(next);
  }
  clock.take(reading(1_000_000, 2, 60_000));
  expect(clock.movedMs(reading(1_001_000, 2, 60_000), 100)).toBe(0);
});

test("a jump is reported once, with its server, and stays a finding", () => {
  const jumps: ClockJump[] = [];
  const clocks = new ServerClocks((jump) => jumps.push(jump));
  const at = (ms: number) => ({ monoMs: ms, bootMs: ms, wallMs: ms });
  for (const [ms, aheadMs] of [
    [0, 0],
    [1_000, 5_000],
    [2_000, 5_000],
  ] as const) {
    const times = [
      { node: "a", serverMs: ms + aheadMs },
      { node: "b", serverMs: ms - 7_000 },
    ];
    clocks.read([{ state: "renewed", validMs: 1_000, clocks: times }], 100, at(ms), at(ms + 2));
  }
  expect(jumps).toHaveLength(1);
  expect(jumps[0]).toMatchObject({ node: "a" });
  expect(jumps[0]?.jumpMs).toBeGreaterThan(4_900);
  expect(clocks.findings().map(({ id, what }) => [id, /clock of a jumped/.test(what)])).toEqual([
    ["clock", true],
  ]);
});
