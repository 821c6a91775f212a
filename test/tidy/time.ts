// src/system/node.ts is the only source of time and randomness. Core and the stores may use no other
// source, because the simulator and the tests with a virtual clock could not control it.

import { importsOf } from "./imports.ts";
import { codeOf } from "./scan.ts";
import { type Complaint, isTestOnly, lineAt, type SourceFile } from "./tree.ts";

interface Ban {
  readonly pattern: RegExp;
  readonly use: string;
}

const WALL = "system.wallMs";
const TIMER = "system.after";
const RANDOM = "system.randomId or system.random";

const BANS: readonly Ban[] = [
  { pattern: /\bDate\b(?:\.now)?/g, use: `system.monoMs, or ${WALL} where people read it` },
  { pattern: /\bperformance\b(?:\.now)?/g, use: "system.monoMs" },
  { pattern: /\bprocess\.(?:hrtime|uptime)\b/g, use: "system.monoMs" },
  { pattern: /\bset(?:Timeout|Interval|Immediate)\b/g, use: TIMER },
  { pattern: /\bAbortSignal\.timeout\b/g, use: TIMER },
  { pattern: /\bAtomics\.wait(?:Async)?\b/g, use: TIMER },
  { pattern: /\bMath\.random\b/g, use: RANDOM },
  { pattern: /\b(?:randomBytes|randomUUID|randomInt|getRandomValues|randomFill(?:Sync)?)\b/g, use: RANDOM },
];

const BANNED_MODULES: ReadonlyMap<string, string> = new Map([
  ["node:timers", TIMER],
  ["node:timers/promises", TIMER],
  ["node:perf_hooks", "system.monoMs"],
]);

export function checkTime(file: SourceFile): Complaint[] {
  if (!/^src\/(core|stores)\/.*\.ts$/.test(file.path) || isTestOnly(file.path)) return [];
  const code = codeOf(file.text, { strings: false });
  const complaints: Complaint[] = [];
  const complain = (line: number, what: string, use: string): void => {
    complaints.push({ path: file.path, line, message: `${what} is banned, use ${use}` });
  };
  for (const { pattern, use } of BANS) {
    for (const match of code.matchAll(pattern)) complain(lineAt(code, match.index), match[0], use);
  }
  for (const { specifier, line } of importsOf(file.text)) {
    const use = BANNED_MODULES.get(specifier);
    if (use !== undefined) complain(line, specifier, use);
  }
  return complaints;
}
