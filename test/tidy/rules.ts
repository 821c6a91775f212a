// All style rules in one place. Each takes one file and returns complaints that say where, what and how to mend it; none
// reads the disk, so that the tests of the rules can feed them planted mistakes.

import { checkImports } from "./imports.ts";
import { checkSizes } from "./sizes.ts";
import { checkTime } from "./time.ts";
import type { Complaint, SourceFile } from "./tree.ts";
import { checkWords } from "./words.ts";

export type Rule = (file: SourceFile) => Complaint[];

export const rules: Readonly<Record<"imports" | "time" | "sizes" | "words", Rule>> = {
  imports: checkImports,
  time: checkTime,
  sizes: checkSizes,
  words: checkWords,
};
