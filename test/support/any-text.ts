// Any well-formed text, for properties. fast-check has `unit: "binary"` for this, but takes a second and a
// half of a processor to prepare it, in every process that uses it.

import fc from "fast-check";

const FIRST_SURROGATE = 0xd800;
const SURROGATES = 0x800;
const CODE_POINTS = 0x11_0000;

/** One code point, of any plane; a surrogate is none. */
const codePoint: fc.Arbitrary<string> = fc
  .nat(CODE_POINTS - SURROGATES - 1)
  .map((n) => String.fromCodePoint(n < FIRST_SURROGATE ? n : n + SURROGATES));

/** Half of the code points are below 256: control characters, digits and punctuation matter most. */
const unit: fc.Arbitrary<string> = fc.oneof(
  fc.nat(0xff).map((n) => String.fromCodePoint(n)),
  codePoint,
);

export function anyText(
  lengths: { readonly minLength?: number; readonly maxLength?: number } = {},
): fc.Arbitrary<string> {
  return fc.string({ unit, ...lengths });
}
