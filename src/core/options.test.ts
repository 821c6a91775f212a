// Options: defaults, limits and conversions. Every rejection is an InvalidArgumentError that names the
// option.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "./errors.ts";
import {
  type AcquireOptions,
  ALLOW_NAMES,
  readAcquireOptions,
  readElectOptions,
  readLocksOptions,
  readPositive,
  readTtl,
  refuseOptionsLast,
  refuseUnknown,
  sameLockSpec,
} from "./options.ts";

const WEEK_MS = 7 * 24 * 3_600_000;
const defaults = readLocksOptions({}, "host:1");

/** Runs `call`, which must be rejected with an error that names the option. */
function rejects(option: string, call: () => unknown): void {
  expect(call).toThrow(InvalidArgumentError);
  expect(call).toThrow(new RegExp(`\\b${option}\\b`));
}

describe("options of createLocks", () => {
  it("have the documented defaults", () => {
    expect(defaults).toEqual({
      ttlMs: 30_000,
      waitMs: 10_000,
      label: "host:1",
      namespace: "holdfast",
      graceMs: null,
      handoffMs: 10,
      deadlockMs: 500,
      allow: [],
    });
  });

  it("are converted to milliseconds", () => {
    const given = { ttl: "1m", wait: "2s", grace: "1s", handoff: 0, deadlock: "5s" } as const;
    expect(readLocksOptions({ ...given, label: "web", namespace: "shop.v2_a-b" }, "host:1")).toEqual({
      ttlMs: 60_000,
      waitMs: 2_000,
      label: "web",
      namespace: "shop.v2_a-b",
      graceMs: 1_000,
      handoffMs: 0,
      deadlockMs: 5_000,
      allow: [],
    });
    expect(readLocksOptions({ wait: Infinity }, "host:1").waitMs).toBe(Infinity);
    expect(readLocksOptions({ deadlock: false }, "host:1").deadlockMs).toBeNull();
    expect(readLocksOptions({ grace: 0 }, "host:1").graceMs).toBe(0);
  });

  it.each(ALLOW_NAMES)("accept %s in allow", (name) => {
    expect(readLocksOptions({ allow: [name] }, "host:1").allow).toEqual([name]);
  });

  it.each([
    ["ttl", [49, 0, -1, WEEK_MS + 1, Infinity, Number.NaN, "30", ""]],
    ["wait", [-1, Number.NaN, -Infinity, "10", "Infinity"]],
    ["label", ["x".repeat(257), "\ud800", 5]],
    ["namespace", ["", "a b", "a/b", "a:b", "é", "x".repeat(65), "a\n", 5]],
    ["grace", [-1, Infinity, "1", null]],
    ["handoff", [-1, Infinity, "10", false]],
    ["deadlock", [-1, Infinity, true, "never"]],
    ["allow", ["eviction", ["everything"], [5], {}]],
    ["tll", ["30s", undefined]],
  ])("reject a wrong %s", (option, values) => {
    for (const value of values) {
      rejects(option, () => readLocksOptions({ [option]: value }, "host:1"));
    }
  });

  it.each([null, undefined, "local:", 5, [], () => {}])("reject %s instead of an object", (value) => {
    expect(() => readLocksOptions(value as never, "host:1")).toThrow(InvalidArgumentError);
  });
});

describe("options of acquire", () => {
  const read = (options: object): ReturnType<typeof readAcquireOptions> =>
    readAcquireOptions(options as AcquireOptions, defaults);

  it("have the documented defaults", () => {
    expect(read({})).toEqual({
      mode: "exclusive",
      permits: 1,
      limit: 1,
      ttlMs: 30_000,
      graceMs: 3_000,
      keepMs: 0,
      reservedFences: 10_000,
      waitMs: 10_000,
      renew: true,
      maxHoldMs: Infinity,
      signal: null,
      label: "host:1",
      reentrant: false,
      within: null,
    });
  });

  it("override the defaults of createLocks", () => {
    const ours = readLocksOptions({ ttl: "1m", wait: 0, label: "web", grace: 7 }, "host:1");
    expect(readAcquireOptions({}, ours)).toMatchObject({
      ttlMs: 60_000,
      waitMs: 0,
      label: "web",
      graceMs: 7,
    });
    const { signal } = new AbortController();
    const given = { ttl: "5s", wait: Infinity, label: "", maxHold: "1h", signal, renew: false } as const;
    expect(readAcquireOptions({ ...given, limit: 5, permits: 5, reentrant: true }, ours, 90)).toEqual({
      mode: "exclusive",
      permits: 5,
      limit: 5,
      ttlMs: 5_000,
      graceMs: 7,
      keepMs: 90,
      reservedFences: 0,
      waitMs: Infinity,
      renew: false,
      maxHoldMs: 3_600_000,
      signal,
      label: "",
      reentrant: true,
      within: null,
    });
  });

  it("derive the grace from the ttl of the call", () => {
    expect(read({ ttl: "3s" }).graceMs).toBe(300);
  });

  it("accept the limits of every range", () => {
    expect(read({ ttl: 50 }).ttlMs).toBe(50);
    expect(read({ ttl: "168h" }).ttlMs).toBe(WEEK_MS);
    expect(read({ limit: 1_000_000, permits: 1_000_000 })).toMatchObject({ limit: 1e6, permits: 1e6 });
    expect(read({ label: "x".repeat(256) }).label).toHaveLength(256);
    expect(read({ maxHold: 0.5 }).maxHoldMs).toBe(0.5);
    expect(read({ mode: "shared", limit: 1 }).mode).toBe("shared");
  });

  it.each([
    ["ttl", [49.9, 0, WEEK_MS + 1, "30", Infinity, null, true]],
    ["wait", [-1, "5", Number.NaN, null]],
    ["mode", ["read", "", 5, true]],
    ["limit", [0, -1, 1.5, 1_000_001, "3", Number.NaN, Infinity]],
    ["permits", [0, -1, 0.5, "1"]],
    ["renew", ["yes", 1, 0]],
    ["maxHold", [0, -1, "0s", Infinity, null]],
    ["reentrant", ["no", 1]],
    ["signal", [5, {}, new AbortController(), null]],
    ["label", ["x".repeat(257), 5, null, "\udc00"]],
    ["atLeast", ["1m"]],
    ["grace", [5]],
  ])("reject a wrong %s", (option, values) => {
    for (const value of values) rejects(option, () => read({ [option]: value }));
  });

  it("reject options that exclude each other", () => {
    rejects("permits", () => read({ permits: 2 }));
    rejects("permits", () => read({ limit: 2, permits: 3 }));
    rejects("shared", () => read({ mode: "shared", limit: 2 }));
  });

  it("accept permits exactly up to the limit", () => {
    const count = fc.integer({ min: 1, max: 1_000 });
    fc.assert(
      fc.property(count, count, (limit, permits) => {
        if (permits <= limit) expect(read({ limit, permits })).toMatchObject({ limit, permits });
        else rejects("permits", () => read({ limit, permits }));
      }),
    );
  });
});

describe("options of elect", () => {
  it("are those of an acquire that waits without a limit", () => {
    const given = { ttl: "5s", maxHold: "1m", label: "cron" } as const;
    expect(readElectOptions(given, defaults)).toMatchObject({
      ttlMs: 5_000,
      maxHoldMs: 60_000,
      label: "cron",
      waitMs: Infinity,
      mode: "exclusive",
      limit: 1,
    });
  });

  it.each(["wait", "mode", "limit", "permits", "renew", "reentrant", "within"])("reject %s", (option) => {
    rejects(option, () => readElectOptions({ [option]: 1 }, defaults));
  });
});

describe("sameLockSpec", () => {
  const times = { ttlMs: 100, graceMs: 50, keepMs: 0, reservedFences: 0 };
  const one = { mode: "exclusive", permits: 1, limit: 1, ...times } as const;

  it("compares every field", () => {
    expect(sameLockSpec(one, { ...one })).toBe(true);
    const changes = { mode: "shared", permits: 2, limit: 2, ttlMs: 101, graceMs: 51, keepMs: 1 } as const;
    for (const [name, value] of Object.entries(changes))
      expect(sameLockSpec(one, { ...one, [name]: value }), name).toBe(false);
  });
});

describe("single checks", () => {
  it("read a ttl from 50 ms to 7 days", () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, min: -100, max: 2 * WEEK_MS }), (ms) => {
        if (ms >= 50 && ms <= WEEK_MS) expect(readTtl(ms)).toBe(ms);
        else rejects("ttl", () => readTtl(ms));
      }),
    );
  });

  it("read a duration that is longer than 0", () => {
    expect(readPositive("every", "1ms")).toBe(1);
    for (const value of [0, "0s", -1, "1"]) rejects("every", () => readPositive("every", value));
  });

  it("name the unknown option and the known ones", () => {
    expect(() => refuseUnknown("elect", { tll: 1 }, ["ttl", "label"])).toThrow(/elect.*"tll".*ttl, label/);
    expect(() => refuseUnknown("elect", { ["x".repeat(1_000)]: 1 }, ["ttl"])).toThrow(/^.{1,120}$/);
    expect(() => refuseUnknown("elect", { ttl: 1 }, ["ttl", "label"])).not.toThrow();
  });

  it("reject options after the function", () => {
    expect(() => refuseOptionsLast("using", () => {}, {})).toThrow(InvalidArgumentError);
    expect(() => refuseOptionsLast("using", () => {}, undefined)).not.toThrow();
    expect(() => refuseOptionsLast("using", {}, () => {})).not.toThrow();
  });
});
