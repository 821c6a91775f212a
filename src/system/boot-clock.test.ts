import { expect, it } from "vitest";
import { bootClock } from "./boot-clock.ts";

const STARTED_S = 5_000.37;

/** How far the boot clock is ahead of the monotonic one at each of `times`, over an uptime with this step. */
function lead(stepMs: number, times: readonly number[], suspendedMs = (_at: number): number => 0): number[] {
  let nowMs = 0;
  const uptimeMs = (): number => STARTED_S * 1_000 + nowMs + suspendedMs(nowMs);
  const clock = bootClock(() => (Math.floor(uptimeMs() / stepMs) * stepMs) / 1_000);
  return times.map((at) => {
    nowMs = at;
    return clock(at, at + suspendedMs(at)) - at;
  });
}

const everyTen = Array.from({ length: 300 }, (_, i) => i * 10);

it("follows the monotonic clock while nothing is suspended, whatever the step of the uptime (P2)", () => {
  expect(new Set(lead(10, everyTen))).toEqual(new Set([0]));
  // macOS, Bun and Deno: a step up would end a lease of one second early.
  expect(new Set(lead(1_000, everyTen))).toEqual(new Set([0]));
});

it("is ahead of the monotonic clock by a suspend, in the first reading after it (P7)", () => {
  const ahead = lead(10, [0, 100, 1_000, 1_001, 2_000], (at) => (at > 1_000 ? 60_000 : 0));
  expect(ahead.slice(0, 3)).toEqual([0, 0, 0]);
  for (const ms of ahead.slice(3)) expect(Math.abs(ms - 60_000)).toBeLessThanOrEqual(10);
});

it("does not jump when the first reading of a fine clock is a whole second by chance", () => {
  const uptimes = [7_000, 7_000.05, 7_001];
  let reading = 0;
  const clock = bootClock(() => uptimes[reading] as number);
  const leads = [0, 50, 1_000].map((at, i) => {
    reading = i;
    return clock(at, at) - at;
  });
  expect(leads).toEqual([0, 0, 0]);
});
