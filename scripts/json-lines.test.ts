// Result files with one JSON object per line: the reader, the writer, and the files of the project.

import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { readSuiteResults, suiteOf } from "../bench/results.ts";
import { readResults, runOf } from "../faults/results.ts";
import { putJsonLine, readJsonLines } from "./json-lines.ts";

interface Line {
  readonly name: string;
  readonly value: number;
}

const folder = mkdtempSync(join(tmpdir(), "holdfast-lines-"));
const file = join(folder, "results.jsonl");
const put = (name: string, value: number): void =>
  putJsonLine<Line>(file, { name, value }, (line) => line.name);

beforeEach(() => rmSync(file, { force: true }));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("a file of JSON lines", () => {
  it("has no lines while it does not exist", () => {
    expect(readJsonLines(file)).toEqual([]);
  });

  it("is sorted by identity, whatever the order of writing", () => {
    for (const name of ["b", "a", "c"]) put(name, 1);
    expect(readFileSync(file, "utf8")).toBe(
      '{"name":"a","value":1}\n{"name":"b","value":1}\n{"name":"c","value":1}\n',
    );
  });

  it("has one line per identity: a new result replaces the old one", () => {
    put("a", 1);
    put("b", 2);
    put("a", 3);
    expect(readJsonLines<Line>(file)).toEqual([
      { name: "a", value: 3 },
      { name: "b", value: 2 },
    ]);
  });

  it("is replaced as a whole: no other file stays behind", () => {
    put("a", 1);
    expect(readdirSync(folder)).toEqual(["results.jsonl"]);
  });

  it("stays as it is if a result cannot be written", () => {
    put("a", 1);
    const circular: { name: string; self?: object } = { name: "b" };
    circular.self = circular;
    expect(() => putJsonLine(file, circular, (line) => line.name)).toThrow(TypeError);
    expect(readJsonLines(file)).toEqual([{ name: "a", value: 1 }]);
  });

  it("names the place of a damaged line, and is not overwritten", () => {
    writeFileSync(file, '{"name":"a","value":1}\n{"name":\n');
    expect(() => readJsonLines(file)).toThrow(`${file}:2: not a line of JSON`);
    expect(() => put("b", 1)).toThrow(/not a line of JSON/);
    expect(readFileSync(file, "utf8")).toContain('{"name":\n');
  });
});

describe("the recorded results", () => {
  const identities = { faults: readResults().map(runOf), bench: readSuiteResults().map(suiteOf) };

  it.each(["faults", "bench"] as const)("of %s are sorted, each identity once", (kind) => {
    const found = identities[kind];
    expect(found.length).toBeGreaterThan(10);
    expect(found).toEqual([...new Set(found)].sort());
  });
});
