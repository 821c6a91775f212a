// Leftovers of unfinished work: TODO notes, conflicts of a merge, tests that are switched off, paths of a
// home directory, and download addresses in a lock file. This folder is exempt, because its tests plant them.

import { type Complaint, lineAt, type SourceFile } from "./tree.ts";

interface Leftover {
  readonly pattern: RegExp;
  readonly remedy: string;
  /** Only in files with such a path. */
  readonly within?: RegExp;
}

const LEFTOVERS: readonly Leftover[] = [
  { pattern: /^(?:<{7}|>{7}) .*$/gm, remedy: "is a conflict of a merge: resolve it" },
  { pattern: /\b(?:TODO|FIXME)\b/g, remedy: "marks unfinished work: finish it or leave it out" },
  {
    pattern: /\b(?:it|test|describe|suite|bench)(?:\.\w+)*\.(?:only|skip|skipIf|todo)\b/g,
    remedy: "switches tests off: run them or delete them",
    within: /\.[cm]?[jt]s$/,
  },
  {
    // `ann` is the sample user of documentation and tests.
    pattern: /(?<![\w.~@-])\/(?:(?:home|Users)\/(?!ann\b)\w[\w.-]*|root\/)/g,
    remedy: "is a home directory: name the path from the root of the project, or use os.homedir()",
  },
  {
    pattern: /"resolved": "https?:[^"]*/g,
    remedy: "ties the lock file to one server: run npm install --omit-lockfile-registry-resolved",
    within: /package-lock\.json$/,
  },
];

export function checkLeftovers(file: SourceFile): Complaint[] {
  if (file.path.startsWith("test/tidy/")) return [];
  const complaints: Complaint[] = [];
  for (const { pattern, remedy, within } of LEFTOVERS) {
    if (within !== undefined && !within.test(file.path)) continue;
    for (const match of file.text.matchAll(pattern)) {
      const message = `${JSON.stringify(match[0])} ${remedy}`;
      complaints.push({ path: file.path, line: lineAt(file.text, match.index), message });
    }
  }
  return complaints;
}
