// Random histories of requests, for model tests: the same history runs on a store and on plain rules.

import fc from "fast-check";
import type { Request } from "../../src/core/store.ts";

const KEYS = ["x", "y", "z"] as const;

export type Op =
  | {
      readonly op: "new";
      readonly proc: 0 | 1;
      readonly keys: readonly string[];
      readonly wish: Partial<Request>;
    }
  | { readonly op: "again" | "abandon" | "owns"; readonly which: number }
  | { readonly op: "release" | "renew"; readonly which: number; readonly handedOn: number }
  | { readonly op: "note"; readonly which: number; readonly waitingFor: string | null }
  | { readonly op: "revoke"; readonly key: string; readonly which: number | null; readonly force: boolean }
  | { readonly op: "pass"; readonly us: number };

const which = fc.nat({ max: 30 });
const key: fc.Arbitrary<string> = fc.constantFrom(...KEYS);
export const wish: fc.Arbitrary<Partial<Request>> = fc.record({
  mode: fc.constantFrom("exclusive" as const, "exclusive" as const, "shared" as const),
  limit: fc.constantFrom(1, 1, 1, 3),
  ttlMs: fc.constantFrom(200, 300, 5_000, 30_000),
  keepMs: fc.constantFrom(0, 0, 0, 400),
  queue: fc.constantFrom(true, true, true, false),
  permits: fc.constantFrom(1, 2),
});
export const several: fc.Arbitrary<string[]> = fc.oneof(
  { weight: 4, arbitrary: key.map((one) => [one]) },
  { weight: 1, arbitrary: fc.subarray([...KEYS], { minLength: 2 }) },
);

export const ops = (
  keys: fc.Arbitrary<string[]>,
  wishes: fc.Arbitrary<Partial<Request>>,
): fc.Arbitrary<Op[]> => fc.array(opOf(keys, wishes), { minLength: 10, maxLength: 40, size: "max" });

const opOf = (keys: fc.Arbitrary<string[]>, wishes: fc.Arbitrary<Partial<Request>>): fc.Arbitrary<Op> =>
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        op: fc.constant("new" as const),
        proc: fc.constantFrom(0 as const, 1 as const),
        keys,
        wish: wishes,
      }),
    },
    {
      weight: 5,
      arbitrary: fc.record({
        op: fc.constantFrom("again" as const, "again" as const, "abandon" as const, "owns" as const),
        which,
      }),
    },
    {
      weight: 5,
      arbitrary: fc.record({
        op: fc.constantFrom("release" as const, "release" as const, "renew" as const),
        which,
        handedOn: fc.nat({ max: 50 }),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ op: fc.constant("note" as const), which, waitingFor: fc.option(key) }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        op: fc.constant("revoke" as const),
        key,
        which: fc.option(which),
        force: fc.boolean(),
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({
        op: fc.constant("pass" as const),
        us: fc.constantFrom(1, 777, 20_000, 120_000, 400_000, 1_200_000, 6_000_000),
      }),
    },
  );
