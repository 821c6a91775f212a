// A process that is stopped or killed before or after every one of its calls of the file system, opening and
// closing included, and at random moments of a tight loop: no key is blocked past ttl + grace, nobody overlaps.
// HOLDFAST_ROUNDS=1000 tries more random moments.

import { expect, it } from "vitest";
import { checkRandomStops, checkStopPoint, countCalls } from "./stop-points.ts";

const ROUNDS = Number(process.env["HOLDFAST_ROUNDS"] ?? 60);
const LIMIT_MS = 60 * 60_000;

const faults = [true, false].flatMap((isFirst) =>
  (["SIGSTOP", "SIGKILL"] as const).flatMap((signal) =>
    (["before", "after"] as const).map((when) => ({ signal, when, isFirst })),
  ),
);

it.each(faults)(
  "$signal $when every call of the file system, first in the directory: $isFirst (P1, P3, P10)",
  async (fault) => {
    const calls = await countCalls(fault.isFirst);
    const waits: number[] = [];
    for (let at = 1; at <= calls; at += 1) {
      const waitedMs = await checkStopPoint({ ...fault, at });
      if (waitedMs !== null) waits.push(waitedMs);
    }
    console.log(`${waits.length} of ${calls} points, longest wait ${Math.round(Math.max(...waits))} ms`);
    expect(waits.length).toBeGreaterThan(calls * 0.9);
  },
  LIMIT_MS,
);

it.each(["SIGSTOP", "SIGKILL"] as const)(
  "%s at random moments of a tight loop (P1, P3, P10)",
  async (signal) => {
    const { longestMs, rounds } = await checkRandomStops(signal, ROUNDS);
    console.log(`${rounds} rounds, longest wait ${Math.round(longestMs)} ms`);
    expect(rounds).toBe(ROUNDS);
  },
  LIMIT_MS,
);
