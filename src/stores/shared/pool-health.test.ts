import { expect, it } from "vitest";
import { PoolHealth } from "./pool-health.ts";

it("two calls in a row without any answer make a pool silent, and its old connections unusable", () => {
  let nowMs = 0;
  const health = new PoolHealth(() => nowMs);
  const [old, other] = [{}, {}];
  health.answered(old);
  health.answered(other);
  nowMs = 3_000;
  expect(health.givenUp(1_000)).toBe(false);
  expect(health.isUsable(old)).toBe(true);
  nowMs = 5_000;
  expect(health.givenUp(3_000)).toBe(true);
  expect([old, other, {}].map((one) => health.isUsable(one))).toEqual([false, false, true]);
  health.answered(old);
  expect(health.isUsable(old)).toBe(true);
});

it("an answer of any connection ends the row, and so do calls that left before it", () => {
  let nowMs = 3_000;
  const health = new PoolHealth(() => nowMs);
  expect(health.givenUp(1_000)).toBe(false);
  health.answered({});
  expect(health.givenUp(1_000)).toBe(false);
  expect(health.givenUp(1_000)).toBe(false);
  nowMs = 5_000;
  expect(health.givenUp(3_500)).toBe(false);
  expect(health.givenUp(3_500)).toBe(true);
});

it("short timeouts alone do not make a pool silent", () => {
  let nowMs = 0;
  const health = new PoolHealth(() => nowMs);
  for (; nowMs < 450; nowMs += 50) expect(health.givenUp(nowMs - 50)).toBe(false);
  nowMs = 500;
  expect(health.givenUp(450)).toBe(true);
});
