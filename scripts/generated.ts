// Parts of a page that a program writes: between <!-- NAME:begin ... --> and <!-- NAME:end -->. The text around them is by hand and stays.

import { readFileSync, writeFileSync } from "node:fs";

/** The page with that part replaced. Throws where the marks are missing, so that nothing is generated into the void. */
export function withPart(page: string, name: string, text: string): string {
  const marks = new RegExp(`(<!-- ${name}:begin[^\n]*-->\n)[\\s\\S]*?(<!-- ${name}:end -->)`);
  if (!marks.test(page)) throw new Error(`no ${name}:begin and ${name}:end in the page`);
  return page.replace(marks, (_, begin: string, end: string) => `${begin}${text.trimEnd()}\n${end}`);
}

export function writeParts(file: string, parts: Readonly<Record<string, string>>): void {
  const page = readFileSync(file, "utf8");
  const written = Object.entries(parts).reduce((text, [name, part]) => withPart(text, name, part), page);
  if (written !== page) writeFileSync(file, written);
}

export type Row = readonly (string | number)[];

export function markdownTable(head: Row, rows: readonly Row[]): string {
  const line = (cells: Row): string => `| ${cells.join(" | ")} |`;
  return [line(head), `|${"---|".repeat(head.length)}`, ...rows.map(line)].join("\n");
}

/** 1234567.8 -> 1,234,568; 0.2713 -> 0.271 */
export function figure(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  const digits = Math.abs(value) >= 100 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value) || 1)));
  return value.toLocaleString("en-US", { maximumFractionDigits: digits });
}
