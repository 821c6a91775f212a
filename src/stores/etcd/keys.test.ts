// The names of keys in etcd: no key of one lock is in the range of another (P18).

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { escapeKey, Keys, type KeyRange, unescapeKey } from "./keys.ts";

const key = fc.oneof(
  fc.string({ minLength: 1 }),
  fc.string({ minLength: 1, unit: fc.constantFrom("/", "%", "2", "5", "F", "0", "w", "1", "\0", "é") }),
);

function ownKey(keys: Keys, one: string, limit: number): string {
  return keys.ofRequest({ keys: [one], limit, mode: "exclusive", id: "ab12" })[0] ?? "";
}

function inside(name: string, { key: from, end }: KeyRange): boolean {
  const [bytes, low, high] = [name, from, end].map((part) => Buffer.from(part)) as [Buffer, Buffer, Buffer];
  return bytes.compare(low) >= 0 && bytes.compare(high) < 0;
}

describe("the names of a lock", () => {
  it("lie in its own span and in no other lock's, whatever the keys are", () => {
    fc.assert(
      fc.property(key, key, fc.integer({ min: 1, max: 120 }), (one, two, limit) => {
        const keys = new Keys("holdfast");
        const own = ownKey(keys, one, limit);
        expect(inside(own, keys.lock(one))).toBe(true);
        expect(inside(own, keys.lock(two))).toBe(one === two);
      }),
    );
  });

  it("say what they are", () => {
    fc.assert(
      fc.property(
        key,
        fc.integer({ min: 1, max: 9_999 }),
        fc.boolean(),
        fc.boolean(),
        (one, limit, isShared, isKept) => {
          const keys = new Keys("a/b%");
          const mode = isShared ? "shared" : "exclusive";
          const request = { keys: [one], limit, mode, id: "ab12" } as const;
          const [name = ""] = isKept ? keys.keptOfRequest(request) : keys.ofRequest(request);
          expect(keys.parse(name)).toEqual({ key: one, limit, mode, isKept, id: "ab12" });
          expect(inside(name, keys.ofLimit(one, limit))).toBe(true);
          expect(inside(name, keys.ofLimit(one, limit + 1))).toBe(false);
          expect(inside(name, keys.allKept(one, limit))).toBe(isKept);
          expect(inside(name, keys.queue(one, limit, mode))).toBe(!isKept);
        },
      ),
    );
  });

  it("of two namespaces never meet, even where one begins like the other", () => {
    for (const [one, two] of [
      ["a", "a/k"],
      ["a", "ab"],
      ["a/", "a%2F"],
    ] as const) {
      expect(inside(ownKey(new Keys(one), "x", 1), new Keys(two).locks)).toBe(false);
      expect(inside(ownKey(new Keys(two), "x", 1), new Keys(one).locks)).toBe(false);
    }
  });

  it("come back from their escapes", () => {
    fc.assert(
      fc.property(key, (one) => {
        expect(unescapeKey(escapeKey(one))).toBe(one);
      }),
    );
  });

  it("of something else are not taken for a lock's", () => {
    const keys = new Keys("ns");
    for (const name of [
      "other/k/a/1/w/ab",
      "ns/k/a",
      "ns/k/a/0/w/ab",
      "ns/k/a/1/z/ab",
      "ns/k/a/1/w/XY",
      "ns/x/ab/1",
    ])
      expect(keys.parse(name), name).toBeNull();
  });
});
