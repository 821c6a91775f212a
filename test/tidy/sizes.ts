// Calm files: at most 300 lines, functions of at most 60, and a head comment that says why the file exists.

import { codeOf } from "./scan.ts";
import { type Complaint, isTestOnly, lineAt, type SourceFile } from "./tree.ts";

export const MAX_FILE_LINES = 300;
export const MAX_FUNCTION_LINES = 60;

const CONTROL = /\b(if|for|while|switch|catch|with|await)$/;

export function checkSizes(file: SourceFile): Complaint[] {
  if (!/^src\/.*\.(ts|lua|sql)$/.test(file.path) || isTestOnly(file.path)) return [];
  const complaints: Complaint[] = [];
  const lines = file.text.trimEnd().split("\n").length;
  if (lines > MAX_FILE_LINES) {
    const message = `${lines} lines, at most ${MAX_FILE_LINES}: give one of its nouns a file of its own (style: sizes)`;
    complaints.push({ path: file.path, line: MAX_FILE_LINES + 1, message });
  }
  if (!/^(#!.*\n)?\s*(\/\/|\/\*|--)/.test(file.text)) {
    const message = "no head comment: say in two to five lines why the file exists (style: comments)";
    complaints.push({ path: file.path, line: 1, message });
  }
  if (file.path.endsWith(".ts")) complaints.push(...longFunctions(file));
  return complaints;
}

function longFunctions(file: SourceFile): Complaint[] {
  const code = codeOf(file.text, { strings: false });
  const complaints: Complaint[] = [];
  for (const { start, end } of functionBodies(code)) {
    const first = lineAt(code, start);
    const length = lineAt(code, end) - first + 1;
    if (length <= MAX_FUNCTION_LINES) continue;
    const message = `a function of ${length} lines, at most ${MAX_FUNCTION_LINES}: name its steps (style: sizes)`;
    complaints.push({ path: file.path, line: first, message });
  }
  return complaints;
}

/** Every `{` that opens the body of a function, with its `}`. */
export function functionBodies(code: string): { start: number; end: number }[] {
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

/** After `=>`, or after a list of parameters with or without a return type, and not after `if (...)` and its like. */
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
