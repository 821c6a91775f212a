// Words that have no place in the project: paths of one machine, addresses of mirrors, promises to finish later, how the
// work was organised, names that are not ours to use, and tests that do not run. This folder alone may name them.

import { type Complaint, lineAt, type SourceFile } from "./tree.ts";

interface Word {
  readonly pattern: RegExp;
  readonly remedy: string;
  /** Only in files with such a path. */
  readonly within?: RegExp;
}

const MACHINE =
  "is a path of one machine: say it from the root of the project, or through os.homedir() or os.tmpdir()";
const MIRROR = "is the address of a mirror: leave it to the user's own configuration";
const LATER = "is a promise to finish later: finish it, or leave it out";
const WORK = "is about how the work was organised: say what is true of the product instead";
const NAME = "is not ours to name: leave it out";
const IDLE = "is a test that does not run, or keeps others from running: run it or delete it";

const WORDS: readonly Word[] = [
  { pattern: /(?<![\w.~-])\/(?:work|root|farm)\//g, remedy: MACHINE },
  { pattern: /\bregistry\.(?:npmjs|yarnpkg|npmmirror)\b[\w.]*/gi, remedy: MIRROR },
  { pattern: /\b(?:deb|security|snapshot|ftp\.\w+)\.debian\.org\b/gi, remedy: MIRROR },
  { pattern: /\b(?:archive|security|ports)\.ubuntu\.com\b/gi, remedy: MIRROR },
  { pattern: /\bhttps?:\/\/[\w.-]*(?:mirror|artifactory|nexus|artifact-registry)[\w.-]*/gi, remedy: MIRROR },
  { pattern: /"resolved": "https?:[^"]*/g, remedy: MIRROR, within: /package-lock\.json$/ },
  { pattern: /\b(?:TODO|FIXME|XXX)\b/g, remedy: LATER },
  { pattern: /\bnot (?:yet )?implemented\b/gi, remedy: LATER },
  { pattern: /\bfor now\b/gi, remedy: LATER },
  { pattern: /\bissue #?\d+/gi, remedy: WORK },
  { pattern: /\bthe brief\b(?! (?:moment|pause|time|window))/gi, remedy: WORK },
  {
    pattern: /\b(?:session notes?|founder|sub-?agents?|helper (?:session|agent)s?|another helper)\b/gi,
    remedy: WORK,
  },
  {
    pattern:
      /\b(?:as (?:asked|requested) (?:by|in) the (?:task|prompt|user)|language model|system prompt)\b/gi,
    remedy: WORK,
  },
  { pattern: /字节跳动|\bbytedance\b|\bjianshu\b|\bpostimg\b/gi, remedy: NAME },
  {
    pattern: /\b(?:it|test|describe|suite)(?:\.\w+)*\.(?:skip|skipIf|runIf|only|todo|fails)\b/g,
    remedy: IDLE,
    within: /\.[cm]?[jt]s$/,
  },
  { pattern: /\b(?:xit|xtest|xdescribe|fit|fdescribe)\s*\(/g, remedy: IDLE, within: /\.test\.ts$/ },
  {
    pattern: /\bctx\.skip\(|\btask\.skip\(|\bretry:\s*[1-9]\d*/g,
    remedy: IDLE,
    within: /(?:^test\/.*|\.test|vitest\.config)\.ts$/,
  },
];

export function checkWords(file: SourceFile): Complaint[] {
  if (file.path.startsWith("test/tidy/")) return [];
  const complaints: Complaint[] = [];
  for (const { pattern, remedy, within } of WORDS) {
    if (within !== undefined && !within.test(file.path)) continue;
    for (const match of file.text.matchAll(pattern)) {
      const line = lineAt(file.text, match.index);
      complaints.push({
        path: file.path,
        line,
        message: `${JSON.stringify(match[0])} ${remedy} (style: words)`,
      });
    }
  }
  return complaints;
}
