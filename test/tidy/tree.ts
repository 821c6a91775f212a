// The files of the project as the style rules see them: a path from the root, with slashes, and the text.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export interface SourceFile {
  readonly path: string;
  readonly text: string;
}

/** Where a rule was broken and what to do about it. */
export interface Complaint {
  readonly path: string;
  readonly line: number;
  readonly message: string;
}

const NOT_OURS: ReadonlySet<string> = new Set([
  ".git",
  ".tmp",
  ".servers",
  "coverage",
  "dist",
  "node_modules",
  "results",
]);
const EXTENSION = /\.(c|cjs|css|html|js|jsonl?|lua|md|mjs|mts|proto|py|sh|sql|ts|txt|ya?ml)$/;
const PLAIN_NAME = /(^|\/)([^./]+|\.[a-z]+(config|ignore|rc|attributes))$/;

/** Every text file below `root` that is ours, whether git knows it already or not. */
export function readTree(root: string, folder = ""): SourceFile[] {
  const files: SourceFile[] = [];
  for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
    const path = folder === "" ? entry.name : `${folder}/${entry.name}`;
    if (entry.isDirectory() && !NOT_OURS.has(entry.name)) files.push(...readTree(root, path));
    if (entry.isFile() && (EXTENSION.test(path) || PLAIN_NAME.test(path)))
      files.push({ path, text: readFileSync(join(root, path), "utf8") });
  }
  return files;
}

/** Tests beside the source, and their fixtures: the package does not ship them. */
export function isTestOnly(path: string): boolean {
  return /\.test\.ts$|(^|\/)fixture\.ts$/.test(path);
}

export function show(complaint: Complaint): string {
  return `${complaint.path}:${complaint.line}: ${complaint.message}`;
}

export function lineAt(text: string, index: number): number {
  let line = 1;
  for (let at = text.indexOf("\n"); at !== -1 && at < index; at = text.indexOf("\n", at + 1)) line += 1;
  return line;
}
