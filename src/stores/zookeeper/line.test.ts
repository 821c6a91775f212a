// The rules of the line, from names alone: who holds, what is watched, and that watching it is enough.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { UnsafeStoreError } from "../../core/errors.ts";
import type { Mode, Request } from "../../core/store.ts";
import { before, fits, fitting, inOrder, readLine, toWatch } from "./line.ts";
import { isDigest, keptName, keyOf, nodeName, Paths, placeName, readName } from "./names.ts";
import { fenceOf } from "./record.ts";
import { anyText } from "../../../test/support/any-text.ts";

const WISH: Request = {
  keys: ["k"],
  id: "00",
  seq: 1,
  mode: "exclusive",
  permits: 1,
  limit: 1,
  ttlMs: 1_000,
  graceMs: 50,
  fenceRoom: 10_000,
  keepMs: 0,
  label: "l",
  actor: "a",
  queue: true,
};

interface Someone {
  readonly mode: Mode;
  readonly permits: number;
  readonly limit: number;
}

function nameOf(who: Someone, at: number): string {
  const id = (at + 1).toString(16).padStart(32, "0");
  return placeName({ ...WISH, ...who, id }, "ab") + String(at).padStart(10, "0");
}

const lock = fc.record<Someone>({
  mode: fc.constantFrom("exclusive", "shared"),
  permits: fc.constant(1),
  limit: fc.constant(1),
});
const pool = fc.integer({ min: 2, max: 5 }).chain((limit) =>
  fc.array(
    fc.record<Someone>({
      mode: fc.constant("exclusive"),
      permits: fc.integer({ min: 1, max: limit }),
      limit: fc.constant(limit),
    }),
    { minLength: 1, maxLength: 8 },
  ),
);
const crowd = fc.oneof(fc.array(lock, { minLength: 1, maxLength: 8 }), pool);

describe("the line", () => {
  it("never lets two hold that do not go together, and the first always holds (P1)", () => {
    fc.assert(
      fc.property(crowd, (people) => {
        const holders = fitting(readLine(people.map(nameOf), "k"));
        expect(holders.length).toBeGreaterThan(0);
        const limit = (holders[0] as Someone).limit;
        if (limit > 1)
          expect(holders.reduce((sum, { permits }) => sum + permits, 0)).toBeLessThanOrEqual(limit);
        else if (holders.length > 1) expect(holders.every(({ mode }) => mode === "shared")).toBe(true);
      }),
    );
  });

  it("is a prefix of those who hold, so that nobody overtakes (P12)", () => {
    fc.assert(
      fc.property(crowd, (people) => {
        const line = readLine(people.map(nameOf), "k");
        const names = fitting(line).map(({ name }) => name);
        expect(names).toEqual(line.entries.slice(0, names.length).map(({ name }) => name));
      }),
    );
  });

  it("makes nobody's turn come while what it watches stands, whoever else leaves (P11)", () => {
    fc.assert(
      fc.property(crowd, fc.array(fc.boolean(), { minLength: 8, maxLength: 8 }), (people, stay) => {
        const line = readLine(people.map(nameOf), "k");
        const own = line.entries.at(-1) as (typeof line.entries)[number];
        const ahead = before(line, own.name) ?? [];
        if (fits(ahead, own)) return;
        const watched = toWatch(ahead, own);
        expect(watched.length).toBeGreaterThan(0);
        const left = ahead.filter((entry, at) => watched.includes(entry) || stay[at]);
        expect(fits(left, own)).toBe(false);
      }),
    );
  });

  it("has one lock wake one waiter: a writer watches one place, a reader the last writer (P14)", () => {
    const people: Someone[] = ["shared", "exclusive", "shared", "shared"].map((mode) => ({
      mode: mode as Mode,
      permits: 1,
      limit: 1,
    }));
    const line = readLine(people.map(nameOf), "k");
    const [first, writer, reader, late] = line.entries;
    if (first === undefined || writer === undefined || reader === undefined || late === undefined)
      throw new Error();
    expect(toWatch([first], writer)).toEqual([first]);
    expect(toWatch([first, writer, reader], late)).toEqual([writer]);
    expect(toWatch([first, writer, reader], { ...late, mode: "exclusive" })).toEqual([reader]);
  });

  it("keeps the order when numbers run over", () => {
    const last = 2 ** 31 - 1;
    expect([-(2 ** 31), last, last - 1, -(2 ** 31) + 1].sort(inOrder)).toEqual([
      last - 1,
      last,
      -(2 ** 31),
      -(2 ** 31) + 1,
    ]);
    const names = [
      `${placeName({ ...WISH, id: "bb" }, "1")}-2147483648`,
      `${placeName(WISH, "1")}2147483647`,
    ];
    expect(readLine(names, "k").entries.map(({ id }) => id)).toEqual(["00", "bb"]);
  });

  it("counts what is kept once: behind its holder's back it stands before everybody", () => {
    const kept = keptName({ ...WISH, id: "cc" }, "1");
    const place = `${placeName({ ...WISH, id: "cc" }, "1")}0000000007`;
    const other = `${placeName(WISH, "2")}0000000003`;
    expect(readLine([other, place, kept], "k").entries.map(({ id }) => id)).toEqual(["00", "cc"]);
    const orphaned = readLine([other, kept], "k").entries;
    expect(orphaned.map(({ id, kept: isKept }) => [id, isKept])).toEqual([
      ["cc", true],
      ["00", false],
    ]);
  });
});

describe("names", () => {
  it("say what the request said, and come back from the name", () => {
    const shape = fc.record({ permits: fc.nat(9), limit: fc.nat(9), mode: lock.map(({ mode }) => mode) });
    fc.assert(
      fc.property(shape, fc.boolean(), (who, kept) => {
        const request = { ...WISH, ...who, id: "0123456789abcdef0123456789abcdef", keys: ["a", "b"] };
        const name = kept ? keptName(request, "1f") : `${placeName(request, "1f")}0000000042`;
        const entry = readName(name, "a");
        expect(entry).toEqual({
          ...who,
          name,
          kept,
          keys: 2,
          session: "1f",
          id: request.id,
          seq: kept ? 0 : 42,
        });
      }),
    );
  });

  it("that holdfast did not write are refused, never passed over", () => {
    for (const name of ["", "lock-0000000001", "x1.1.1.ab.00", "kx1.1.1.ab.00.0000000001", "y1.1.1.ab.00.1"])
      expect(() => readName(name, "k"), name).toThrow(UnsafeStoreError);
  });

  it("are different for different keys and namespaces, and names that a server takes (P18)", () => {
    const paths = new Paths("/chroot", "ns");
    fc.assert(
      fc.property(anyText({ minLength: 1 }), (key) => {
        fc.pre(key.isWellFormed());
        const name = paths.key(key).slice("/chroot/ns/".length);
        expect(name).toMatch(/^[kh][\x21-\x2e\x30-\x7e]+$/);
        expect(name.length).toBeLessThan(130);
        expect(isDigest(name) ? paths.containerData(key).toString() : keyOf(name)).toBe(key);
      }),
    );
    const names = [".", "..", "...", "zookeeper", "%2E", "a", "A", "a.", "%7Aookeeper"].map(nodeName);
    expect(new Set(names).size).toBe(names.length);
    for (const name of names) expect(["zookeeper", ".", ".."]).not.toContain(name);
  });
});

describe("fences", () => {
  it("grow with the transactions, fit 64 bits, and are refused beyond", () => {
    expect(fenceOf(0x1_00000002n)).toBe(0x1_00000002n * 8_192n);
    expect(fenceOf(2n ** 50n - 1n) + 8_191n).toBe(2n ** 63n - 1n);
    for (const zxid of [2n ** 50n, 0n, -1n]) expect(() => fenceOf(zxid)).toThrow(/leaders/);
  });
});
