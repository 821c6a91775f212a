// Durations: which values are accepted, and how many milliseconds they are.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { duration, toMs } from "./duration.ts";
import { InvalidArgumentError } from "./errors.ts";

const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 } as const;
const UNIT_NAMES = Object.keys(UNITS) as (keyof typeof UNITS)[];

describe("duration", () => {
  it.each([
    ["0ms", 0],
    ["250ms", 250],
    ["30s", 30_000],
    ["5m", 300_000],
    ["1h", 3_600_000],
    ["1.5s", 1_500],
    ["0.5m", 30_000],
    ["0.25h", 900_000],
    ["007s", 7_000],
    // Rounded to whole milliseconds.
    ["1.4ms", 1],
    ["1.6ms", 2],
    ["0.0005s", 1],
  ])("parses %s as %d ms", (text, ms) => {
    expect(duration(text)).toBe(ms);
  });

  it.each([
    ...["", " ", "s", "30", "30 s", " 30s", "30s ", "30S", "30sec", "30d", "+30s", "-30s", ".5s", "5.s"],
    ...["1e3ms", "1_000ms", "1,5s", "0x10s", "Infinitys", "NaNms", "1m30s", "1.2.3s", "30s\n", "٣s"],
    ...[30, 0, null, undefined, true, 30n, {}, ["30s"], Number.NaN],
  ])("rejects %s", (value) => {
    expect(() => duration(value as string)).toThrow(InvalidArgumentError);
  });

  it("multiplies every whole number by its unit", () => {
    const number = fc.integer({ min: 0, max: 2 ** 31 });
    fc.assert(
      fc.property(number, fc.constantFrom(...UNIT_NAMES), (count, unit) => {
        expect(duration(`${count}${unit}`)).toBe(count * UNITS[unit]);
      }),
    );
  });

  it("either throws InvalidArgumentError or returns whole milliseconds, for every text", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.stringMatching(/^\d{0,4}\.?\d{0,3}(ms|s|m|h|d)?$/)), (text) => {
        try {
          const ms = duration(text);
          expect(Number.isInteger(ms) && ms >= 0).toBe(true);
          expect(text).toMatch(/^\d+(\.\d+)?(ms|s|m|h)$/);
        } catch (error) {
          if (!(error instanceof InvalidArgumentError)) throw error;
        }
      }),
    );
  });
});

describe("toMs", () => {
  it.each([0, 0.5, 1, 30_000, 2 ** 40])("accepts the number %d as milliseconds", (value) => {
    expect(toMs("ttl", value)).toBe(value);
  });

  it("parses text as duration() does", () => {
    expect(toMs("ttl", "1.5s")).toBe(1_500);
  });

  it.each([-1, -0.1, Number.NaN, Infinity, -Infinity, 5n, "30", "", null, undefined, {}, [], true])(
    "rejects %s",
    (value) => {
      expect(() => toMs("ttl", value)).toThrow(InvalidArgumentError);
    },
  );

  it("names the option, the value and the accepted forms in the error", () => {
    expect(() => toMs("maxHold", "30")).toThrow(/maxHold must be .*"30s".*, got "30"$/);
  });

  it("shortens a long value in the error", () => {
    for (const value of ["x".repeat(1_000), { toString: () => "x".repeat(1_000) }]) {
      expect(() => toMs("ttl", value)).toThrow(/^[^x]*x{1,40}[^x]*x?[^x]*$/);
    }
  });
});
