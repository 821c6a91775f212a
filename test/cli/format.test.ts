// How keys and times are written for people.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { escapeControls, formatDuration, formatName, renderTable } from "../../src/cli/format.ts";
import { anyText } from "../support/any-text.ts";

describe("a name", () => {
  it("is bare where that is clear, and quoted where it is not", () => {
    expect(["phone:139", "ключ", "a b", "", 'say "x"', "back\\slash", "tab\t"].map(formatName)).toEqual([
      "phone:139",
      "ключ",
      '"a b"',
      '""',
      '"say \\"x\\""',
      '"back\\\\slash"',
      '"tab\\u{9}"',
    ]);
  });

  it("is different for different keys, and never holds what a terminal acts on (P18)", () => {
    const text = anyText({ maxLength: 8 });
    fc.assert(
      fc.property(text, text, (a, b) => {
        expect(formatName(a) === formatName(b)).toBe(a === b);
        expect(formatName(a)).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
        expect(escapeControls(a)).not.toMatch(/\p{Cc}/u);
      }),
    );
  });
});

describe("a time", () => {
  it("is short and has its unit", () => {
    const shown = [0, 999, 1_000, 12_340, 59_949, 59_950, 245_000, 3_599_400, 7_380_000, 273_600_000, -5].map(
      formatDuration,
    );
    expect(shown).toEqual([
      "0ms",
      "999ms",
      "1.0s",
      "12.3s",
      "59.9s",
      "1m00s",
      "4m05s",
      "59m59s",
      "2h03m",
      "3d04h",
      "0ms",
    ]);
  });
});

describe("a table", () => {
  it("has columns as wide as needed and no space at the ends", () => {
    expect(
      renderTable([
        ["A", "B"],
        ["long", ""],
        ["x", "yy"],
      ]),
    ).toBe("A     B\nlong\nx     yy\n");
  });
});
