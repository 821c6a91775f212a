// All style rules for single files. Each takes one file and returns complaints with the place and the remedy.
// No rule reads the disk, so the tests of the rules can pass them planted mistakes.

import { checkFunctions, checkHeadComment } from "./functions.ts";
import { checkImports } from "./imports.ts";
import { checkLeftovers } from "./leftovers.ts";
import { checkLockFile } from "./lock-file.ts";
import { checkTime } from "./time.ts";
import type { Complaint, SourceFile } from "./tree.ts";

type Rule = (file: SourceFile) => Complaint[];

export const rules = {
  imports: checkImports,
  time: checkTime,
  functions: checkFunctions,
  headComment: checkHeadComment,
  leftovers: checkLeftovers,
  lockFile: checkLockFile,
} satisfies Readonly<Record<string, Rule>>;
