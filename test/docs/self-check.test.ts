// Proof that the test of the documentation sees a wrong block: every mistake is planted here.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Block, blocksOf, outputMatches, programsOf, stepsOf } from "./blocks.ts";
import { Workshop } from "./fixture.ts";

const fence = (info: string, text: string): string => `\`\`\`${info}\n${text}\n\`\`\`\n`;
const one = (text: string): Block => blocksOf("PLANTED.md", text)[0] as Block;

describe("blocks", () => {
  it("are found with language, marks, line and text, also indented and next to other text", () => {
    const text = `# Title\n\n${fence("ts no-run", "let a = 1;")}\n- item\n\n  \`\`\`sh\n  ls\n  \`\`\`\n`;
    expect(blocksOf("a.md", text)).toEqual([
      { file: "a.md", line: 3, language: "ts", marks: ["no-run"], text: "let a = 1;\n" },
      { file: "a.md", line: 9, language: "sh", marks: [], text: "ls\n" },
    ]);
  });

  it("with a mark that nobody reads are refused", () => {
    expect(() => one(fence("ts norun", "a"))).toThrow(
      "PLANTED.md:1: no such mark as norun: there are no-run, continues",
    );
    expect(() => one(fence("js", "a"))).toThrow("PLANTED.md:1: write ```ts instead of ```js");
    expect(() => one("```ts\nopen")).toThrow("never closed");
  });

  it("that continue carry what came before", () => {
    const text = fence("ts", "let a = 1;") + fence("ts continues", "a += 1;") + fence("ts no-run", "let b;");
    const programs = programsOf(blocksOf("a.md", text));
    expect(programs.map(({ source, run }) => ({ source, run }))).toEqual([
      { source: "let a = 1;\n", run: true },
      { source: "let a = 1;\na += 1;\n", run: true },
      { source: "let b;\n", run: false },
    ]);
  });

  it("of a console are commands with what they print", () => {
    const block = one(fence("console", "$ npx holdfast ls\nkey  fence 1\n$ echo"));
    expect(stepsOf(block)).toEqual([
      { line: 2, command: "npx holdfast ls", output: ["key  fence 1"] },
      { line: 4, command: "echo", output: [] },
    ]);
    expect(outputMatches(["key  fence ..."], "key  fence 17\n")).toBe(true);
    expect(outputMatches(["first", "...", "last"], "first\na\nb\nlast\n")).toBe(true);
    expect(outputMatches(["first", "last"], "first\na\nlast\n")).toBe(false);
    expect(outputMatches(["key  fence 1"], "key  fence 2\n")).toBe(false);
  });
});

describe("a block", () => {
  let workshop: Workshop;
  beforeAll(() => void (workshop = new Workshop()));
  afterAll(() => workshop.close());

  it("that does not compile is caught with its place", async () => {
    const block = one(`\n\n${fence("ts no-run", 'const a: number = "one";')}`);
    workshop.add(block, block.text);
    const mistakes = await workshop.compile();
    expect(mistakes.join("\n")).toMatch(/^PLANTED\.md:3 \(line 1 of the program\): error TS2322/);
  });

  it("that throws is caught", async () => {
    const block = one(fence("ts", 'await Promise.reject(new Error("planted"));'));
    const ran = await workshop.run(workshop.add(block, block.text));
    expect(ran.ok).toBe(false);
    expect(ran.said).toContain("planted");
  });

  it("that calls what the package does not have is caught", async () => {
    const block = one(fence("ts", 'import { noSuchThing } from "holdfast";\nnoSuchThing();'));
    const ran = await workshop.run(workshop.add(block, block.text));
    expect(ran.ok).toBe(false);
    expect(ran.said).toContain("noSuchThing");
  });

  it("that uses the package by its name runs", async () => {
    const block = one(fence("ts", 'import { duration } from "holdfast";\nconsole.log(duration("2s"));'));
    const ran = await workshop.run(workshop.add(block, block.text));
    expect(ran.said).toBe("2000\n");
  });
});
