// The rules of the queue, from names alone: who holds, what is watched, and that watching it is enough.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { UnsafeStoreError } from "../../core/errors.ts";
import type { Mode, Request } from "../../core/store.ts";
import { aheadOf, entriesToWatch, fits, holdersOf, inOrder, readQueue } from "./queue-rules.ts";
import { type Entry, isDigest, keptName, keyOf, nodeName, Paths, queueNodeName, readName } from "./paths.ts";
import { fenceOf } from "./record.ts";
import { anyText } from "../../../test/support/any-text.ts";

const REQUEST: Request = {
  keys: ["k"],
  id: "00",
  seq: 1,
  mode: "exclusive",
  permits: 1,
  limit: 1,
  ttlMs: 1_000,
  graceMs: 50,
  reservedFences: 10_000,
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
  return queueNodeName({ ...REQUEST, ...who, id }, "ab") + String(at).padStart(10, "0");
}

const PLAIN: Someone = { mode: "exclusive", permits: 1, limit: 1 };
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

describe("the queue", () => {
  it("never lets two hold that do not go together, and the first always holds (P1)", () => {
    fc.assert(
      fc.property(crowd, (people) => {
        const holders = holdersOf(readQueue(people.map(nameOf), "k"));
        expect(holders.length).toBeGreaterThan(0);
        const limit = (holders[0] as Someone).limit;
        if (limit > 1)
          expect(holders.reduce((sum, { permits }) => sum + permits, 0)).toBeLessThanOrEqual(limit);
        else if (holders.length > 1) expect(holders.every(({ mode }) => mode === "shared")).toBe(true);
      }),
    );
  });

  it("grants exactly what fits beside all that is ahead, which is a prefix: nobody overtakes (P12)", () => {
    const mixed = fc.array(
      fc.oneof(
        lock,
        pool.map(([first]) => first as Someone),
      ),
      { maxLength: 8 },
    );
    fc.assert(
      fc.property(fc.oneof(crowd, mixed), (people) => {
        const queue = readQueue(people.map(nameOf), "k");
        const holders = queue.filter((entry, at) => fits(queue.slice(0, at), entry));
        expect(holdersOf(queue)).toEqual(holders);
        expect(holdersOf(queue, 2)).toEqual(holders.slice(0, 2));
        expect(queue.slice(0, holders.length)).toEqual(holders);
      }),
    );
  });

  it("finds the holders without a look at those that wait, however many they are (P21)", () => {
    const [first, second] = readQueue(
      [0, 1].map((at) => nameOf(PLAIN, at)),
      "k",
    ) as [Entry, Entry];
    const untouchable = new Proxy(second, {
      get: () => {
        throw new Error("read");
      },
    });
    expect(holdersOf([first, second, ...Array.from({ length: 1_000 }, () => untouchable)], 3)).toEqual([
      first,
    ]);
  });

  it("makes nobody's turn come while what it watches stands, whoever else leaves (P11)", () => {
    fc.assert(
      fc.property(crowd, fc.array(fc.boolean(), { minLength: 8, maxLength: 8 }), (people, stay) => {
        const queue = readQueue(people.map(nameOf), "k");
        const own = queue.at(-1) as (typeof queue)[number];
        const ahead = aheadOf(queue, own.name) ?? [];
        if (fits(ahead, own)) return;
        const watched = entriesToWatch(ahead, own);
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
    const queue = readQueue(people.map(nameOf), "k");
    const [first, writer, reader, late] = queue;
    if (first === undefined || writer === undefined || reader === undefined || late === undefined)
      throw new Error();
    expect(entriesToWatch([first], writer)).toEqual([first]);
    expect(entriesToWatch([first, writer, reader], late)).toEqual([writer]);
    expect(entriesToWatch([first, writer, reader], { ...late, mode: "exclusive" })).toEqual([reader]);
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
      `${queueNodeName({ ...REQUEST, id: "bb" }, "1")}-2147483648`,
      `${queueNodeName(REQUEST, "1")}2147483647`,
    ];
    expect(readQueue(names, "k").map(({ id }) => id)).toEqual(["00", "bb"]);
  });

  it("counts a kept node once: if its holder is gone it is ahead of everything", () => {
    const kept = keptName({ ...REQUEST, id: "cc" }, "1");
    const node = `${queueNodeName({ ...REQUEST, id: "cc" }, "1")}0000000007`;
    const other = `${queueNodeName(REQUEST, "2")}0000000003`;
    expect(readQueue([other, node, kept], "k").map(({ id }) => id)).toEqual(["00", "cc"]);
    const orphaned = readQueue([other, kept], "k");
    expect(orphaned.map(({ id, isKept }) => [id, isKept])).toEqual([
      ["cc", true],
      ["00", false],
    ]);
  });
});

describe("names", () => {
  it("say what the request said, and come back from the name", () => {
    const shape = fc.record({ permits: fc.nat(9), limit: fc.nat(9), mode: lock.map(({ mode }) => mode) });
    fc.assert(
      fc.property(shape, fc.boolean(), (who, isKept) => {
        const request = { ...REQUEST, ...who, id: "0123456789abcdef0123456789abcdef", keys: ["a", "b"] };
        const name = isKept ? keptName(request, "1f") : `${queueNodeName(request, "1f")}0000000042`;
        const entry = readName(name, "a");
        expect(entry).toEqual({
          ...who,
          name,
          isKept,
          keys: 2,
          session: "1f",
          id: request.id,
          seq: isKept ? 0 : 42,
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
