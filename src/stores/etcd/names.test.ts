// Names in etcd: what belongs to one lock never lies among the names of another (P18).

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { escapeName, Names, type Span, unescapeName } from "./names.ts";

const key = fc.oneof(
  fc.string({ minLength: 1 }),
  fc.string({ minLength: 1, unit: fc.constantFrom("/", "%", "2", "5", "F", "0", "w", "1", "\0", "é") }),
);

function inside(name: string, { key: from, end }: Span): boolean {
  const [bytes, low, high] = [name, from, end].map((part) => Buffer.from(part)) as [Buffer, Buffer, Buffer];
  return bytes.compare(low) >= 0 && bytes.compare(high) < 0;
}

describe("the names of a lock", () => {
  it("lie in its own span and in no other lock's, whatever the keys are", () => {
    fc.assert(
      fc.property(key, key, fc.integer({ min: 1, max: 120 }), (one, two, limit) => {
        const names = new Names("holdfast");
        const own = names.own(one, limit, "exclusive", "ab12");
        expect(inside(own, names.lock(one))).toBe(true);
        expect(inside(own, names.lock(two))).toBe(one === two);
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
        (one, limit, reads, kept) => {
          const names = new Names("a/b%");
          const mode = reads ? "shared" : "exclusive";
          const name = kept ? names.kept(one, limit, mode, "ab12") : names.own(one, limit, mode, "ab12");
          expect(names.place(name)).toEqual({ key: one, limit, mode, kept, id: "ab12" });
          expect(inside(name, names.size(one, limit))).toBe(true);
          expect(inside(name, names.size(one, limit + 1))).toBe(false);
          expect(inside(name, names.allKept(one, limit))).toBe(kept);
          expect(inside(name, names.line(one, limit, mode))).toBe(!kept);
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
      expect(inside(new Names(one).own("x", 1, "exclusive", "ab"), new Names(two).locks)).toBe(false);
      expect(inside(new Names(two).own("x", 1, "exclusive", "ab"), new Names(one).locks)).toBe(false);
    }
  });

  it("come back from their escapes", () => {
    fc.assert(
      fc.property(key, (one) => {
        expect(unescapeName(escapeName(one))).toBe(one);
      }),
    );
  });

  it("of something else are not taken for a lock's", () => {
    const names = new Names("ns");
    for (const name of [
      "other/k/a/1/w/ab",
      "ns/k/a",
      "ns/k/a/0/w/ab",
      "ns/k/a/1/z/ab",
      "ns/k/a/1/w/XY",
      "ns/x/ab/1",
    ])
      expect(names.place(name), name).toBeNull();
  });
});
