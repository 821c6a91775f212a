import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { anyText } from "../../../../test/support/any-text.ts";
import { RedisKeys } from "./keys.ts";

const names = new RedisKeys("holdfast");

/** The part of a name that decides the hash slot, as Redis Cluster defines it. */
function slotPart(name: string): string {
  const open = name.indexOf("{");
  const close = name.indexOf("}", open + 1);
  return open === -1 || close <= open + 1 ? name : name.slice(open + 1, close);
}

describe("names in Redis", () => {
  it("give every key back exactly, and different keys different names (P18)", () => {
    fc.assert(
      fc.property(anyText({ minLength: 1 }), (key) => {
        expect(names.key(names.record(key))).toBe(key);
      }),
    );
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), fc.string({ unit: "grapheme" }), (a, b) => {
        expect(names.record(a) === names.record(b)).toBe(a === b);
      }),
    );
  });

  it("put the whole key into the part that decides the slot, whatever braces it holds", () => {
    for (const key of ["a", "{a}", "}{", "a{b}c", "{}", "%7B", "%", "{{{"]) {
      const name = names.record(key);
      expect(`holdfast:{${slotPart(name)}}`).toBe(name);
    }
  });

  it("are none of ours when they look different", () => {
    for (const name of ["holdfast:x", "holdfast:{x", "other:{x}", "holdfast:push:0123"])
      expect(names.key(name)).toBe(null);
  });

  it("are found by patterns in which nothing of a key is special", () => {
    expect(names.pattern("a*[b]?\\")).toBe("holdfast:{a\\*\\[b\\]\\?\\\\*");
  });
});
