// The workflow files of the project against their rules, and the rules against planted mistakes.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { targetNames } from "../../faults/targets/index.ts";
import { readTree, show } from "./tree.ts";
import { checkWorkflow } from "./workflows.ts";

const root = join(import.meta.dirname, "..", "..");
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: object };
const scripts = new Set(Object.keys(manifest.scripts));
const files = readTree(root).filter(({ path }) => /^\.github\/.*\.ya?ml$/.test(path));
const workflows = files.filter(({ path }) => path.startsWith(".github/workflows/"));

describe("the project", () => {
  it("has workflows that follow the rules", () => {
    expect(workflows.map(({ path }) => path).sort()).toEqual(
      ["nightly", "release", "test"].map((name) => `.github/workflows/${name}.yml`),
    );
    expect(workflows.flatMap((file) => checkWorkflow(file, scripts)).map(show)).toEqual([]);
  });

  it("has templates that are YAML", () => {
    for (const { path, text } of files) expect(() => void parse(text, { strict: true }), path).not.toThrow();
  });

  it("tries the faults of every store each night", () => {
    const nightly = workflows.find(({ path }) => path.endsWith("/nightly.yml"));
    const { jobs } = parse(nightly?.text ?? "") as {
      jobs: { faults: { strategy: { matrix: { store: string[] } } } };
    };
    expect(jobs.faults.strategy.matrix.store).toEqual([...targetNames].sort());
  });
});

describe("the rules for workflows", () => {
  const GOOD = `
on: push
permissions:
  contents: read
concurrency:
  group: a
jobs:
  a:
    runs-on: b
    timeout-minutes: 5
    steps:
      - uses: actions/checkout@v6
      - run: npm test
      - run: npm run check -- --x
`;
  const complaints = (text: string): string[] =>
    checkWorkflow({ path: "a.yml", text }, new Set(["check", "test"])).map(show);

  it("accept a good file", () => {
    expect(complaints(GOOD)).toEqual([]);
  });

  it.each([
    ["contents: read", "contents: write", /permission to write contents/],
    ["permissions:\n  contents: read\n", "permissions: write-all\n", /write-all/],
    ["permissions:\n  contents: read\n", "", /no permissions/],
    ["concurrency:\n  group: a\n", "", /no concurrency group/],
    ["    timeout-minutes: 5\n", "", /job a has no timeout-minutes/],
    ["timeout-minutes: 5", "timeout-minutes: 5\n    permissions: { issues: write }", /write issues/],
    ["checkout@v6", "checkout@main", /^a\.yml:12: .*pin the major version/],
    ["checkout@v6", "checkout", /pin the major version/],
    ["npm run check", "npm run chekc", /^a\.yml:14: npm run chekc: package.json has no such script/],
    ["npm test", "npm run tests", /npm run tests/],
    ["npm test", `echo "\${{ github.head_ref }}"`, /github\.\* in a command/],
    ["    steps:", "   steps:", /not valid YAML/],
    ["on: push", "on: push\non: push", /not valid YAML/],
  ])("reject a file in which %j is %j", (from, to, message) => {
    expect(GOOD).toContain(from);
    const found = complaints(GOOD.replace(from, to));
    expect(found).toHaveLength(1);
    expect(found[0]).toMatch(message);
  });
});
