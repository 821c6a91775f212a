import { expect, it } from "vitest";
import { sayWake } from "./pushes.ts";

/** https://www.postgresql.org/docs/current/sql-notify.html */
const LONGEST_NOTIFICATION_BYTES = 8_000;

it("the fences of many keys are not sent where the notification would be too long: the waiter looks", () => {
  const wakeOf = (keys: number): string =>
    sayWake({
      id: "a".repeat(32),
      key: "k",
      proc: "p",
      grant: {
        fences: Array.from({ length: keys }, (_none, at) => 1_794_000_000_000_000 + at),
        room: 30_000_000,
        validMs: 30_000.123,
        anchor: 123,
      },
    });
  expect(wakeOf(2)).toContain("grant");
  expect(wakeOf(500)).toBe(`look ${"a".repeat(32)}`);
  for (let keys = 1; keys < 600; keys += 1)
    expect(Buffer.byteLength(wakeOf(keys))).toBeLessThan(LONGEST_NOTIFICATION_BYTES);
});
