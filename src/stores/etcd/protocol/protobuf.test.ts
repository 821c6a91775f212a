// The protocol buffer encoding: known bytes, round trips of every kind of field, and bytes that are nothing
// at all.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import * as messages from "./messages.ts";
import { big, type Codec, flag, int, list, message, numbers, one, text, ProtobufError } from "./protobuf.ts";

interface Sample {
  name: string;
  count: number;
  large: bigint;
  yes: boolean;
  inner: Sample | null;
  many: readonly Sample[];
  small: readonly number[];
}
const sample: Codec<Sample> = message<Sample>({
  name: text(1),
  count: int(2),
  large: big(3),
  yes: flag(4),
  inner: one(5, () => sample),
  many: list(6, () => sample),
  small: numbers(64),
});

const count = fc.oneof(
  fc.nat(),
  fc.maxSafeNat(),
  fc.constantFrom(127, 128, 2 ** 32, 2 ** 32 - 1, 2 ** 53 - 1),
);
const leaf = fc.record({
  name: fc.string({ unit: "grapheme" }),
  count,
  large: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  yes: fc.boolean(),
  small: fc.array(count),
});
/** Messages in messages in messages. */
function nested(inner: fc.Arbitrary<Sample>): fc.Arbitrary<Sample> {
  return fc
    .tuple(leaf, fc.option(inner), fc.array(inner, { maxLength: 3 }))
    .map(([rest, part, many]) => ({ ...rest, inner: part, many }));
}
const any = nested(nested(leaf.map((rest) => ({ ...rest, inner: null, many: [] }))));

describe("a message", () => {
  it("is read as it was written, whatever is in it", () => {
    fc.assert(
      fc.property(any, (value) => {
        expect(sample.decode(sample.encode(value))).toEqual(value);
      }),
    );
  });

  it("has the bytes that the encoding prescribes", () => {
    const hex = (bytes: Buffer): string => bytes.toString("hex");
    expect(hex(sample.encode({ count: 150 }))).toBe("109601");
    expect(hex(sample.encode({ name: "testing" }))).toBe("0a0774657374696e67");
    expect(hex(sample.encode({ inner: { count: 150 } }))).toBe("2a03109601");
    for (const length of [125, 126, 16_000, 16_380, 16_381, 2_097_150, 2_100_000]) {
      const value = { inner: { name: "x".repeat(length) } };
      expect(sample.decode(sample.encode(value))).toMatchObject(value);
    }
    expect(hex(sample.encode({ small: [1, 300] }))).toBe("8004018004ac02");
    expect(hex(sample.encode({ name: "", count: 0, yes: false, large: 0n, inner: null, many: [] }))).toBe("");
  });

  it("may carry fields that are not known here, of every wire type, and lists that are packed", () => {
    const strange = Buffer.from("c80101d1010102030405060708da0103616263dd0101020304", "hex");
    const value = { name: "a", count: 7 };
    const mixed = Buffer.concat([strange, sample.encode(value), strange]);
    expect(sample.decode(mixed)).toMatchObject(value);
    expect(sample.decode(Buffer.from("82040301ac02", "hex")).small).toEqual([1, 300]);
  });

  it("with the same field twice has the last one", () => {
    const twice = Buffer.concat([sample.encode({ count: 1 }), sample.encode({ count: 2 })]);
    expect(sample.decode(twice).count).toBe(2);
  });
});

describe("bytes that are no message", () => {
  const all = Object.values(messages).filter((part): part is Codec<object> => typeof part === "object");

  it("are an error of their own kind or a message, and never a hang or a crash", () => {
    expect(all.length).toBeGreaterThan(10);
    fc.assert(
      fc.property(fc.constantFrom(...all), fc.uint8Array({ maxLength: 64 }), (codec, bytes) => {
        try {
          expect(typeof codec.decode(Buffer.from(bytes))).toBe("object");
        } catch (error) {
          expect(error).toBeInstanceOf(ProtobufError);
        }
      }),
      { numRuns: 2_000 },
    );
  });

  it("are refused when a message was cut off anywhere inside of a field, or one bit of it turned", () => {
    fc.assert(
      fc.property(any, fc.nat(), fc.nat({ max: 7 }), (value, at, bit) => {
        const bytes = Buffer.from(sample.encode(value));
        if (bytes.length === 0) return;
        bytes[at % bytes.length] = (bytes[at % bytes.length] as number) ^ (1 << bit);
        for (const damaged of [bytes, bytes.subarray(0, at % bytes.length)]) {
          try {
            sample.decode(damaged);
          } catch (error) {
            expect(error).toBeInstanceOf(ProtobufError);
          }
        }
      }),
    );
    expect(() => sample.decode(Buffer.from("0a05616263", "hex"))).toThrow(/longer than its message/);
    expect(() => sample.decode(Buffer.from("10ff", "hex"))).toThrow(/ends in the middle/);
    expect(() => sample.decode(Buffer.from(`10${"ff".repeat(11)}`, "hex"))).toThrow(/longer than 64 bits/);
    expect(() => sample.decode(Buffer.from("10ffffffffffffffffff01", "hex"))).toThrow(/larger than 2\^53/);
    expect(() => sample.decode(Buffer.from("0b", "hex"))).toThrow(ProtobufError);
  });
});
