import fc from "fast-check";
import { expect, test } from "vitest";
import { duration } from "./duration.ts";
import { InvalidArgumentError } from "./errors.ts";
import { canonicalKeys } from "./key.ts";
import { readLocksOptions } from "./options.ts";
import { createLocks } from "../index.ts";
import { refusal, world } from "./fixture.ts";

const BAD_CALLS: [string, unknown, unknown, RegExp][] = [
  ["a duration without unit", "k", { ttl: "30" }, /^ttl must be a duration such as "30s".*, got "30"$/],
  ["a duration with a strange unit", "k", { wait: "3 parsecs" }, /wait must be .*, got "3 parsecs"/],
  ["a negative ttl", "k", { ttl: -1 }, /ttl must be .*, got -1/],
  ["a ttl of nothing", "k", { ttl: 0 }, /50 ms to 7 days/],
  ["a ttl that is not a number", "k", { ttl: Number.NaN }, /ttl must be .*, got NaN/],
  ["an endless ttl", "k", { ttl: Number.POSITIVE_INFINITY }, /ttl must be .*, got Infinity/],
  ["a negative wait", "k", { wait: -5 }, /wait must be .*, got -5/],
  ["an empty key", "", {}, /key must not be empty/],
  ["a key of 10 MB", "x".repeat(10_000_000), {}, /key must be at most 4096 bytes/],
  ["a key that is too long only in UTF-8", "é".repeat(2_049), {}, /key must be at most 4096 bytes/],
  ["an unpaired surrogate", "a\ud800b", {}, /unpaired surrogate/],
  ["a key that is no string", 7, {}, /key must be a string, got number/],
  ["no key", undefined, {}, /key must be a string, got undefined/],
  ["an empty array", [], {}, /keys must not be an empty array/],
  ["an array with an empty key", ["a", ""], {}, /key must not be empty/],
  ["an option typo", "k", { tll: 5 }, /no option "tll".*ttl/],
  ["options that are no object", "k", "30s", /options of acquire must be an object, got "30s"/],
  ["an unknown mode", "k", { mode: "read" }, /mode must be "exclusive" or "shared", got "read"/],
  ["a limit of 0", "k", { limit: 0 }, /limit must be .*, got 0/],
  ["a limit that is no whole number", "k", { limit: 2.5 }, /limit must be .*, got 2.5/],
  [
    "more permits than there are",
    "k",
    { limit: 2, permits: 3 },
    /permits must be at most limit \(2\), got 3/,
  ],
  ["shared with a limit", "k", { mode: "shared", limit: 2 }, /limit must be 1 with mode "shared", got 2/],
  ["renew that is no boolean", "k", { renew: "no" }, /renew must be true or false, got "no"/],
  ["maxHold of nothing", "k", { maxHold: 0 }, /maxHold must be greater than 0, got 0/],
  ["a signal that is none", "k", { signal: {} }, /signal must be an AbortSignal, got/],
  ["a label that is no text", "k", { label: 5 }, /label must be .*, got 5/],
  ["a lease from elsewhere", "k", { within: {} }, /within must be a lease/],
];

test.each(BAD_CALLS)(
  "%s is refused with a clear error and nothing is sent",
  async (_name, key, options, message) => {
    const { door, system, locks } = world();
    const mine = locks();
    for (const call of ["acquire", "tryAcquire"] as const) {
      const error = await refusal(mine[call](key as never, options as never));
      expect(error).toBeInstanceOf(InvalidArgumentError);
      expect(error).toMatchObject({ code: "ERR_LOCK_ARGUMENT", retryable: false });
      expect(error.message).toMatch(message);
      expect(error.message.length).toBeLessThan(400);
    }
    expect(door.calls).toEqual([]);
    expect(system.pendingTimers({ background: true })).toBe(0);
  },
);

test.each([
  [{ namespace: "a/b" }, /namespace/],
  [{ namesapce: "x" }, /no option "namesapce"/],
  [{ allow: ["evicton"] }, /allow must be .*, got evicton/],
  [{ handoff: -1 }, /handoff must be .*, got -1/],
  [{ grace: "soon" }, /grace must be .*, got "soon"/],
])("options of createLocks are checked: %o", (options, message) => {
  expect(() => readLocksOptions(options as never, "me")).toThrow(message);
});

test.each([
  ["an unknown scheme", "mongodb://user:secret@host/", /known scheme, got "mongodb:"/],
  ["a scheme that is nearly one", "redi://host", /"redi:" \(did you mean redis:\?\)/],
  ["no scheme at all", "locks", /known scheme, got "locks"/],
  ["a host of the local store", "local://host/dir", /names a host/],
  ["a relative directory", "local:some/dir", /absolute path/],
  ["no store", 7, /store must be a URL such as "local:" or a store object.*, got number/],
  ["an unset variable", undefined, /got undefined: is a variable such as REDIS_URL not set\?/],
  ["null", null, /got null: .* does not use the local store instead/],
  ["an empty variable", "", /got "": .*createLocks\("local:"\)/],
])("%s is refused by createLocks, and a password is never shown", (_name, store, message) => {
  expect(() => createLocks(store as never)).toThrow(InvalidArgumentError);
  expect(() => createLocks(store as never)).toThrow(message);
  expect(() => createLocks(store as never)).not.toThrow(/secret/);
});

test("using and once need a function; revoke requires a reason", async () => {
  const { locks } = world();
  const mine = locks();
  expect((await refusal(mine.using("k", {} as never))).message).toMatch(
    /fn of (using|once) must be a function/,
  );
  expect((await refusal(mine.using("k", (() => {}) as never, { ttl: "5s" } as never))).message).toMatch(
    /must come before the function/,
  );
  expect(() => mine.elect("k", (() => {}) as never, {} as never)).toThrow(/must come before the function/);
  expect((await refusal(mine.once("k", { atLeast: "1s" }, undefined as never))).message).toMatch(
    /fn of (using|once) must be a function/,
  );
  expect((await refusal(mine.once("k", {} as never, () => 1))).message).toMatch(
    /atLeast must be .*, got undefined/,
  );
  expect((await refusal(mine.revoke("k", { reason: "" }))).message).toMatch(
    /reason must be a non-empty string/,
  );
});

test("keys are exact: newline, NUL, slash, braces, trailing space and both accent forms are different locks (P18)", async () => {
  const { locks } = world();
  const mine = locks();
  const keys = [
    "a",
    "a ",
    "a\n",
    "a\0",
    "a/",
    "/a",
    "{a}",
    "A",
    "\u00e9",
    "e\u0301",
    "a\0b",
    "ab",
    "x".repeat(4_096),
  ];
  const leases = await Promise.all(keys.map((key) => mine.acquire(key)));
  expect(leases.map((lease) => lease.key)).toEqual(keys);
  for (const key of keys) expect(await mine.tryAcquire(key)).toBeNull();
});

test("canonical order is that of UTF-8 bytes, and equal keys collapse", () => {
  expect(canonicalKeys(["\u{1f600}", "\uffee", "b", "a", "b"])).toEqual(["a", "b", "\uffee", "\u{1f600}"]);
});

test("durations: what is written is what is meant, and nothing else is understood", () => {
  const units = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 } as const;
  fc.assert(
    fc.property(fc.nat(100_000), fc.constantFrom("ms", "s", "m", "h"), (n, unit) => {
      expect(duration(`${n}${unit}`)).toBe(n * units[unit]);
    }),
  );
  fc.assert(
    fc.property(fc.string(), (text) => {
      fc.pre(!/^\d+(\.\d+)?(ms|s|m|h)$/.test(text));
      expect(() => duration(text)).toThrow(InvalidArgumentError);
    }),
  );
});
