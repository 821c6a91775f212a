// Code blocks of a Markdown file, as tests use them.
//   ```ts             is compiled and run
//   ```ts no-run      is only compiled
//   ```ts continues   goes on where the block before it ended: both are run as one
//   ```console        lines after "$ npx holdfast" are run and their output compared; other commands are not run

export interface Block {
  readonly file: string;
  /** Line of the fence. */
  readonly line: number;
  readonly language: string;
  readonly marks: readonly string[];
  readonly text: string;
}

const LANGUAGES: ReadonlyMap<string, readonly string[]> = new Map([
  ["ts", ["no-run", "continues"]],
  ["console", ["no-run"]],
]);

/** Fenced blocks in the order of the file. Throws where a mark would be ignored, or a fence is never closed. */
export function blocksOf(file: string, markdown: string): Block[] {
  const blocks: Block[] = [];
  const lines = markdown.split("\n");
  for (let at = 0; at < lines.length; at += 1) {
    const fence = /^( *)(`{3,}|~{3,})\s*(.*)$/.exec(lines[at] as string);
    if (fence === null) continue;
    const [, indent, ticks, info] = fence as unknown as [string, string, string, string];
    const end = lines.findIndex((line, index) => index > at && line.trim() === ticks);
    if (end === -1) throw new Error(`${file}:${at + 1}: the fence is never closed`);
    const [language = "", ...marks] = info.trim().split(/\s+/);
    refuseUnknown(`${file}:${at + 1}`, language, marks);
    const body = lines
      .slice(at + 1, end)
      .map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line));
    blocks.push({ file, line: at + 1, language, marks, text: `${body.join("\n")}\n` });
    at = end;
  }
  return blocks;
}

function refuseUnknown(place: string, language: string, marks: readonly string[]): void {
  if (["typescript", "js", "javascript", "mjs"].includes(language)) {
    throw new Error(`${place}: write \`\`\`ts instead of \`\`\`${language}, so that the block is tested`);
  }
  const known = LANGUAGES.get(language);
  const unknown = marks.find((mark) => known !== undefined && !known.includes(mark));
  if (unknown !== undefined) {
    throw new Error(`${place}: no such mark as ${unknown}: there are ${known?.join(", ")}`);
  }
}

/** Programs of one file: a `continues` block carries the text of those before it. */
export function programsOf(blocks: readonly Block[]): { block: Block; source: string; run: boolean }[] {
  let before = "";
  return blocks
    .filter((block) => block.language === "ts")
    .map((block) => {
      before = block.marks.includes("continues") ? before + block.text : block.text;
      return { block, source: before, run: !block.marks.includes("no-run") };
    });
}

export interface ConsoleStep {
  readonly line: number;
  readonly command: string;
  /** Empty when the block shows none. */
  readonly output: readonly string[];
}

/** What a console block types and sees. A line "..." stands for any lines. */
export function stepsOf(block: Block): ConsoleStep[] {
  const steps: { line: number; command: string; output: string[] }[] = [];
  for (const [index, line] of block.text.trimEnd().split("\n").entries()) {
    if (line.startsWith("$ "))
      steps.push({ line: block.line + 1 + index, command: line.slice(2), output: [] });
    else steps.at(-1)?.output.push(line);
  }
  return steps;
}

/** Whether `seen` is what was shown. */
export function outputMatches(shown: readonly string[], seen: string): boolean {
  if (shown.length === 0) return true;
  const parts = shown.map((line) => (line.trim() === "..." ? "(?:.*\n)*?" : `${lineOf(line)}\n`));
  return new RegExp(`^${parts.join("")}$`).test(`${seen.trimEnd()}\n`);
}

/** Within a line "..." stands for any text. */
function lineOf(line: string): string {
  return line
    .trimEnd()
    .split("...")
    .map((piece) => piece.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"))
    .join(".*");
}
