// Keys: which strings are keys, in which order several are taken, and how a message shows them (P18).

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "./errors.ts";
import { canonicalKeys, checkKey, showKey } from "./key.ts";
import { anyText } from "../../test/support/any-text.ts";

const MAX_BYTES = 4_096;
const key = fc.string({ unit: "grapheme", minLength: 1, maxLength: 40 });
const order = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

describe("checkKey", () => {
  it.each([
    ["a"],
    [" "],
    [" padded "],
    ["order:42"],
    ["a/b\\c*?[x]{y}"],
    ["line\nbreak\0null"],
    ["é"],
    ["e\u0301"],
    ["\u{1F512}"],
    ["__proto__"],
    ["x".repeat(MAX_BYTES)],
    ["é".repeat(MAX_BYTES / 2)],
    ["\u{1F512}".repeat(MAX_BYTES / 4)],
  ])("returns the key unchanged: %j", (text) => {
    expect(checkKey(text)).toBe(text);
  });

  it.each([
    ["an empty key", ""],
    ["one byte too many", "x".repeat(MAX_BYTES + 1)],
    ["too many bytes in fewer characters", `${"é".repeat(MAX_BYTES / 2)}x`],
    ["too many bytes in surrogate pairs", `${"\u{1F512}".repeat(MAX_BYTES / 4)}x`],
    ["a lone high surrogate", "a\ud800"],
    ["a lone low surrogate", "\udc00a"],
    ["surrogates in the wrong order", "\udc00\ud800"],
    ["a number", 7],
    ["null", null],
    ["undefined", undefined],
    ["a String object", Object("a")],
    ["an array", ["a"]],
  ])("rejects %s", (_, value) => {
    expect(() => checkKey(value)).toThrow(InvalidArgumentError);
  });

  it("rejects a text of 10 MB with a short message", () => {
    expect(() => checkKey("x".repeat(10_000_000))).toThrow(/^.{1,200}$/);
  });

  it("accepts exactly the well-formed texts of 1 to 4,096 bytes", () => {
    const text = fc.oneof(
      anyText({ maxLength: 20 }),
      fc.string({ unit: "binary-ascii", minLength: MAX_BYTES - 2, maxLength: MAX_BYTES + 2 }),
      fc.array(fc.constantFrom("a", "é", "\ud83d", "\udd12"), { maxLength: 6 }).map((all) => all.join("")),
    );
    fc.assert(
      fc.property(text, (given) => {
        const bytes = Buffer.byteLength(given);
        // A text with an unpaired surrogate does not survive UTF-8.
        const valid = given !== "" && bytes <= MAX_BYTES && Buffer.from(given).toString() === given;
        if (valid) expect(checkKey(given)).toBe(given);
        else expect(() => checkKey(given)).toThrow(InvalidArgumentError);
      }),
    );
  });
});

describe("canonicalKeys", () => {
  it("makes a list of a single key", () => {
    expect(canonicalKeys("b")).toEqual(["b"]);
    expect(canonicalKeys(["b"])).toEqual(["b"]);
  });

  it.each([
    ["sorts", ["b", "a", "c"], ["a", "b", "c"]],
    ["removes duplicates", ["b", "a", "b", "a"], ["a", "b"]],
    ["puts a prefix first", ["ab", "a"], ["a", "ab"]],
    ["puts upper case before lower case", ["a", "B"], ["B", "a"]],
    // UTF-16 puts the surrogate pair first: 0xD83D is less than 0xFF5E.
    ["orders by UTF-8 bytes", ["\u{1F512}", "\uFF5E"], ["\uFF5E", "\u{1F512}"]],
    ["keeps two forms of one letter apart", ["é", "e\u0301"], ["e\u0301", "é"]],
  ])("%s", (_, given, expected) => {
    expect(canonicalKeys(given)).toEqual(expected);
  });

  it.each([
    ["an empty array", []],
    ["an array with an empty key", ["a", ""]],
    ["an array in an array", [["a"]]],
    ["a hole", Array.from({ length: 1 })],
    ["a Set", new Set(["a"])],
  ])("rejects %s", (_, given) => {
    expect(() => canonicalKeys(given)).toThrow(InvalidArgumentError);
  });

  it("does not modify the caller's array", () => {
    const given = Object.freeze(["b", "a"]);
    expect(canonicalKeys(given)).toEqual(["a", "b"]);
    expect(given).toEqual(["b", "a"]);
  });

  it("has one answer for every order of the same keys: sorted by bytes, each key once", () => {
    const shuffled = fc
      .array(key, { minLength: 1, maxLength: 8 })
      .chain((keys) => fc.tuple(fc.constant(keys), fc.shuffledSubarray(keys, { minLength: keys.length })));
    fc.assert(
      fc.property(shuffled, ([one, other]) => {
        const taken = canonicalKeys(one);
        expect(canonicalKeys(other)).toEqual(taken);
        expect(new Set(taken)).toEqual(new Set(one));
        for (const [at, next] of taken.slice(1).entries()) expect(order(taken[at]!, next)).toBeLessThan(0);
      }),
    );
  });
});

describe("showKey", () => {
  it.each([
    ["a", '"a"'],
    ['a"b', '"a\\"b"'],
    ["a\nb", '"a\\nb"'],
    ["\u001b[31m", '"\\u001b[31m"'],
    // JSON leaves these as they are; a terminal may act on them or turn the reading direction.
    ["\u007f", '"\\u007f"'],
    ["\u009b31m", '"\\u009b31m"'],
    ["\u202eabc\u2066", '"\\u202eabc\\u2066"'],
    ["\u200e\u200f\u2028\u2029\u2069", '"\\u200e\\u200f\\u2028\\u2029\\u2069"'],
    ["é\u{1F512}", '"é\u{1F512}"'],
  ])("quotes and escapes %j", (text, shown) => {
    expect(showKey(text)).toBe(shown);
  });

  it("shortens a long key and names its size", () => {
    expect(showKey("x".repeat(118))).toBe(`"${"x".repeat(118)}"`);
    expect(showKey("x".repeat(119))).toBe(`"${"x".repeat(99)}…" (119 bytes)`);
    expect(showKey("é".repeat(200))).toMatch(/… ?" \(400 bytes\)$/);
  });

  it("prints no control character and at most 150 characters, for every key", () => {
    fc.assert(
      fc.property(anyText({ minLength: 1, maxLength: 300 }), (text) => {
        const shown = showKey(text);
        expect(shown.length).toBeLessThanOrEqual(150);
        expect(shown).not.toMatch(/[\p{Cc}\u200e\u200f\u2028-\u202e\u2066-\u2069]/u);
      }),
    );
  });
});
