// Records of the scripts as bytes: what is read and written back is the same, and what is foreign is refused.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { pack, type Packed, unpack } from "./msgpack.ts";
import { lifeMs, readRecord, writeRecord } from "./record-bytes.ts";

const packed = fc.letrec<{ value: Packed }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    fc.string({ unit: "grapheme" }),
    fc.maxSafeInteger(),
    fc.double({ noNaN: true }),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie("value"), { maxLength: 20 }),
    fc.dictionary(fc.string({ minLength: 1 }), tie("value")),
  ),
})).value;

describe("packed values", () => {
  it("come back as they were", () => {
    fc.assert(
      fc.property(fc.array(packed), (values) => {
        expect(JSON.stringify(unpack(pack(...values)))).toBe(JSON.stringify(values));
      }),
    );
  });

  it("of every size and sign are read", () => {
    const read = (hex: string): unknown => unpack(Buffer.from(hex, "hex"))[0];
    expect(["07", "cc80", "cd0100", "ce00010000", "cf0000000100000000"].map(read)).toEqual([
      7,
      128,
      256,
      65_536,
      2 ** 32,
    ]);
    expect(["ff", "d080", "d1ff00", "d2ffff0000", "d3ffffffff00000000"].map(read)).toEqual([
      -1,
      -128,
      -256,
      -65_536,
      -(2 ** 32),
    ]);
    expect(["ca3fc00000", "cb3ff8000000000000"].map(read)).toEqual([1.5, 1.5]);
    expect(["a161", "d90161", "da000161", "db0000000161"].map(read)).toEqual(["a", "a", "a", "a"]);
    expect(["9101", "dc000101", "dd0000000101"].map(read)).toEqual([[1], [1], [1]]);
    expect(["81a16101", "de0001a16101", "df00000001a16101"].map(read)).toEqual([
      { a: 1 },
      { a: 1 },
      { a: 1 },
    ]);
    expect(["c0", "c2", "c3"].map(read)).toEqual([null, false, true]);
    expect(() => read("c1")).toThrow("HOLDFAST-FOREIGN");
  });
});

describe("a record", () => {
  it("that is not ours is refused, never overwritten", () => {
    for (const text of ["", "hf2f", "hf2h12", "hf2t", "hf9x1", "value"])
      expect(() => readRecord("k", Buffer.from(text)), text).toThrow("HOLDFAST-FOREIGN");
  });

  it("without its last fence, or with a turn that is no whole number, is none", () => {
    const whole = { last: 7, limit: 1, holders: [], line: [], marks: {}, gone: {} };
    const read = (value: object): unknown =>
      readRecord("k", Buffer.concat([Buffer.from("hf2t"), pack(value as Packed)]));
    expect(read(whole)).toMatchObject({ record: { last: 7 } });
    const { last: _last, ...without } = whole;
    for (const value of [without, { ...whole, marks: { a: [1.5, 2] } }])
      expect(() => read(value)).toThrow("HOLDFAST-FOREIGN");
  });

  it("keeps what scripts remember beside it", () => {
    const marks = { "0123456789abcdef": [3, 1_800_000_000_000] as const };
    for (const gone of [{}, { id: 2 }]) {
      const kept = { ...readRecord("k", null), marks, gone };
      kept.record.last = 1_800_000_000_000_007;
      expect(readRecord("k", writeRecord(kept))).toEqual(kept);
    }
  });

  it("of a lone holder is text that scripts compare without reading a number", () => {
    const kept = readRecord("k", null);
    kept.record.last = 1_800_000_000_000_000 + 30_000_000;
    const times = {
      since: 1_800_000_000_000.123,
      until: 1_800_000_031_000.5,
      keepUntil: 0,
    };
    const who = {
      id: "0".repeat(32),
      proc: "f".repeat(16),
      label: "Пётр",
      actor: "a#1",
      permits: 1,
    };
    const numbers = {
      fence: 1_800_000_000_000_000,
      room: 30_000_000,
      used: 1_800_000_000_000_001,
    };
    kept.record.holders.push({
      ...who,
      ...times,
      ...numbers,
      mode: "exclusive",
    });
    expect(readRecord("k", writeRecord(kept))).toEqual(kept);
    expect(writeRecord(kept).toString().slice(0, 20)).toBe("hf2h1800000000000000");
  });

  it("of nobody goes after a minute, any other an hour after the clock has passed its fences", () => {
    const { record } = readRecord("k", null);
    expect(lifeMs(record, 5)).toBe(60_000);
    expect(lifeMs({ ...record, last: 10_000 }, 5)).toBe(3_600_005);
  });
});
