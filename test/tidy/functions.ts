// Functions of at most 60 lines, and a head comment in every file of src/ that says why the file exists.

import { codeOf } from "./scan.ts";
import { type Complaint, isTestOnly, lineAt, type SourceFile } from "./tree.ts";

const MAX_FUNCTION_LINES = 60;

const CONTROL = /\b(if|for|while|switch|catch|with|await)$/;

export function checkFunctions(file: SourceFile): Complaint[] {
  if (!/^src\/.*\.ts$/.test(file.path) || isTestOnly(file.path)) return [];
  const code = codeOf(file.text, { strings: false });
  const complaints: Complaint[] = [];
  for (const { start, end } of functionBodies(code)) {
    const first = lineAt(code, start);
    const length = lineAt(code, end) - first + 1;
    if (length <= MAX_FUNCTION_LINES) continue;
    const message = `a function of ${length} lines, at most ${MAX_FUNCTION_LINES}: name its steps`;
    complaints.push({ path: file.path, line: first, message });
  }
  return complaints;
}

export function checkHeadComment(file: SourceFile): Complaint[] {
  if (!/^src\/.*\.(ts|lua|sql)$/.test(file.path) || isTestOnly(file.path)) return [];
  if (/^(#!.*\n)?\s*(\/\/|\/\*|--)/.test(file.text)) return [];
  const message = "no head comment: say in two to four lines what the file is for";
  return [{ path: file.path, line: 1, message }];
}

/** Every `{` that opens the body of a function, with its `}`. */
function functionBodies(code: string): { start: number; end: number }[] {
  const found: { start: number; end: number }[] = [];
  const open: { at: number; isBody: boolean }[] = [];
  for (let at = 0; at < code.length; at += 1) {
    if (code[at] === "{") open.push({ at, isBody: opensBody(code.slice(0, at).trimEnd()) });
    if (code[at] !== "}") continue;
    const last = open.pop();
    if (last?.isBody === true) found.push({ start: last.at, end: at });
  }
  return found;
}

/** After `=>`, or after parameters with or without a return type; not after `if (...)` and the like. */
function opensBody(before: string): boolean {
  if (before.endsWith("=>")) return true;
  const close = /\)(?:\s*:\s*[^;=()]*)?$/.exec(before);
  if (close === null) return false;
  let depth = 0;
  for (let at = close.index; at >= 0; at -= 1) {
    if (before[at] === ")") depth += 1;
    if (before[at] === "(") depth -= 1;
    if (depth === 0) return !CONTROL.test(before.slice(Math.max(0, at - 20), at).trimEnd());
  }
  return false;
}
