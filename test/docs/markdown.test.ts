// Every block of code in README.md and docs/ compiles, and runs unless it is marked otherwise. Needs the built package.

import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { blocksOf, outputMatches, programsOf, stepsOf } from "./blocks.ts";
import { Workshop } from "./fixture.ts";

const root = join(import.meta.dirname, "..", "..");
const blocks = documents().flatMap((file) => blocksOf(file, readFileSync(join(root, file), "utf8")));
const programs = documents().flatMap((file) => programsOf(blocks.filter((block) => block.file === file)));
const steps = blocks
  .filter((block) => block.language === "console" && !block.marks.includes("no-run"))
  .map((block) => ({ block, steps: stepsOf(block).filter((step) => step.command.includes("npx holdfast")) }))
  .filter((one) => one.steps.length > 0);

let workshop: Workshop;
let store: string;

beforeAll(() => {
  workshop = new Workshop();
  store = mkdtempSync(join(tmpdir(), "holdfast-docs-"));
});

afterAll(() => {
  workshop.close();
  rmSync(store, { recursive: true, force: true });
});

describe("the documentation", () => {
  it("is tested against a built package", () => {
    expect(existsSync(join(root, "dist", "index.js")), "run `npm run build` first").toBe(true);
  });

  it("compiles in every block", async () => {
    for (const { block, source } of programs) workshop.add(block, source);
    expect(programs.length === 0 ? [] : await workshop.compile()).toEqual([]);
  });

  for (const { block, source } of programs.filter((program) => program.run)) {
    it(`runs as shown in ${block.file}:${block.line}`, async () => {
      const ran = await workshop.run(workshop.add(block, source), { HOLDFAST_STORE: `local:${store}` });
      expect(ran.ok, ran.said).toBe(true);
    });
  }

  for (const { block, steps: typed } of steps) {
    it(`prints what is shown in ${block.file}:${block.line}`, async () => {
      for (const step of typed) {
        const ran = await workshop.command(step.command, { HOLDFAST_STORE: `local:${store}` });
        const seen = step.output.length === 0 ? ran.ok : outputMatches(step.output, ran.said);
        expect(seen, `${block.file}:${step.line}: ${step.command}\n${ran.said}`).toBe(true);
      }
    });
  }
});

function documents(): string[] {
  const docs = existsSync(join(root, "docs")) ? readdirSync(join(root, "docs"), { recursive: true }) : [];
  const paths = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    ...docs.map((name) => `docs/${String(name)}`),
  ];
  return paths.filter((path) => path.endsWith(".md") && existsSync(join(root, path))).sort();
}
