// The recipes of docs/operations/security.md as tests run them: the blocks of the page itself, so that what people copy is what was tried.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { blocksOf } from "../docs/blocks.ts";

const PAGE = "docs/operations/security.md";
const root = join(import.meta.dirname, "..", "..");
const blocks = blocksOf(PAGE, readFileSync(join(root, PAGE), "utf8"));

/** The text of the one block with this language and name. */
export function recipe(language: string, name?: string): string {
  const found = blocks.filter((one) => one.language === language && one.marks[0] === name);
  if (found.length !== 1)
    throw new Error(`${PAGE} has ${found.length} blocks \`\`\`${language} ${name ?? ""}, not one`);
  return (found[0] as { text: string }).text;
}

/** Each line as the words of a command. */
export function commands(text: string): string[][] {
  return text
    .trim()
    .split("\n")
    .map((line) => line.split(" "));
}

/** Statements of SQL. */
export function statements(text: string): string[] {
  return text
    .split(";")
    .map((one) => one.trim())
    .filter((one) => one !== "");
}
