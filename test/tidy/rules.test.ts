// Each style rule against planted mistakes, which it must report, and against correct code, which it must
// accept.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { importsOf } from "./imports.ts";
import { rules } from "./rules.ts";
import { codeOf } from "./scan.ts";
import { readTree, show, type SourceFile } from "./tree.ts";
import { checkWidth, lowerRecord, type WideLines, wideLines } from "./width.ts";

type Name = keyof typeof rules;

const complaints = (name: Name, path: string, text: string): string[] =>
  rules[name]({ path, text }).map(show);

describe("the table of imports", () => {
  const refused: readonly [path: string, statement: string][] = [
    ["core/store.ts", 'import { toMs } from "./duration.ts";'],
    ["core/store.ts", 'import { nodeSystem } from "./system.ts";'],
    ["core/system.ts", 'import type { Store } from "./store.ts";'],
    ["core/errors.ts", 'import { showKey } from "./key.ts";'],
    ["core/locks.ts", 'import { memory } from "../stores/memory/index.ts";'],
    ["core/locks.ts", 'import type { KeyRecord } from "../stores/shared/record.ts";'],
    ["core/locks.ts", 'const late = await import("../stores/memory/index.ts");'],
    ["core/locks.ts", 'import { AsyncLocalStorage } from "node:async_hooks";'],
    ["core/lease/actor.ts", 'import { readFile } from "node:fs/promises";'],
    ["core/locks.ts", 'import { program } from "commander";'],
    ["core/locks.ts", 'import { nodeSystem } from "../system/node.ts";'],
    ["stores/redis/store.ts", 'import { HoldfastLocks } from "../../core/locks.ts";'],
    ["stores/redis/store.ts", 'import type { Lease } from "../../core/lease/lease.ts";'],
    ["stores/redis/store.ts", 'import { majorityOf } from "../redlock/quorum-call.ts";'],
    ["stores/redlock/store.ts", 'import { RedisStore } from "../redis/store.ts";'],
    ["stores/redis/store.ts", 'import { nodeSystem } from "../../system/node.ts";'],
    ["stores/shared/ledger.ts", 'import { memory } from "../memory/index.ts";'],
    ["stores/registry.ts", 'import { MemoryStore } from "./memory/store.ts";'],
    ["cli/run.ts", 'import { toMs } from "../core/duration.ts";'],
    ["cli/run.ts", 'import { LocalStore } from "../stores/local/store.ts";'],
    ["testing/test-client.ts", 'import { HoldfastLocks } from "../core/locks.ts";'],
    ["index.ts", 'export { memory } from "./stores/memory/index.ts";'],
    ["create-locks.ts", 'import { world } from "../sim/world.ts";'],
    ["stores/memory/store.ts", 'export * from "../../../test/unit/thing.ts";'],
    ["cli/run.ts", 'import "../../bench/main.ts";'],
    ["somewhere/new.ts", "export {};"],
  ];
  it.each(refused)("src/%s may not say %s", (path, statement) => {
    const found = complaints("imports", `src/${path}`, `// Head.\n\n${statement}\n`);
    expect(found).toHaveLength(1);
    expect(found[0]).toMatch(new RegExp(`^src/${path}:[13]: .+`));
  });

  const allowed: readonly [path: string, statement: string][] = [
    ["core/store.ts", 'import type { System } from "./system.ts";'],
    ["core/lease/actor.ts", 'import { AsyncLocalStorage } from "node:async_hooks";'],
    ["core/locks.ts", 'import { Line } from "./line.ts";'],
    ["stores/local/store.ts", 'import { type Store, type System } from "../../core/store.ts";'],
    ["stores/local/store.ts", 'import { readFile } from "node:fs/promises";'],
    ["stores/local/store.ts", 'import native from "fs-native-extensions";'],
    ["stores/local/store.ts", 'import { Ledger } from "../shared/ledger.ts";'],
    ["stores/redis/store.ts", 'import { connect } from "./adapters/ioredis.ts";'],
    ["stores/redlock/quorum-call.ts", 'import type { RedisPort } from "../redis/client/port.ts";'],
    ["cli/run.ts", 'import { createLocks } from "../index.ts";'],
    ["cli/run.ts", 'import { local } from "../stores/local/index.ts";'],
    ["testing/io.ts", 'import { nodeSystem } from "../system/node.ts";'],
    ["core/locks.test.ts", 'import { memory } from "../stores/memory/index.ts";'],
    ["core/fixture.ts", 'import { memory } from "../stores/memory/index.ts";'],
    ["core/locks.ts", '// import { memory } from "../stores/memory/index.ts";'],
  ];
  it.each(allowed)("src/%s may say %s", (path, statement) => {
    expect(complaints("imports", `src/${path}`, `// Head.\n\n${statement}\n`)).toEqual([]);
  });

  it("reads statements over several lines and knows which are types only", () => {
    const text =
      'import {\n  type A,\n  b,\n} from "./x.ts";\nimport type C from "./y.ts";\nexport * from "./z.ts";\n';
    expect(importsOf(text)).toEqual([
      { specifier: "./x.ts", typesOnly: false, line: 1 },
      { specifier: "./y.ts", typesOnly: true, line: 5 },
      { specifier: "./z.ts", typesOnly: false, line: 6 },
    ]);
  });
});

describe("the door to time", () => {
  const banned: readonly string[] = [
    "Date.now()",
    "new Date()",
    "performance.now()",
    "setTimeout(f, 1)",
    "setInterval(f, 1)",
    "setImmediate(f)",
    "globalThis.setTimeout(f, 1)",
    "process.hrtime.bigint()",
    "Math.random()",
    "randomBytes(16)",
    "crypto.randomUUID()",
    "crypto.getRandomValues(x)",
    "randomFillSync(x)",
    "AbortSignal.timeout(5)",
    "`${Date.now()}`",
  ];
  it.each(banned)("is not %s", (expression) => {
    for (const folder of ["core", "stores/redis"]) {
      const found = complaints("time", `src/${folder}/thing.ts`, `// Head.\n\nconst x = ${expression};\n`);
      expect(found).toHaveLength(1);
      expect(found[0]).toMatch(/^src\/(core|stores\/redis)\/thing\.ts:3: \S+ is banned, use system\..*/);
    }
  });

  it("is not a module of timers either", () => {
    const text = '// Head.\nimport { setTimeout as sleep } from "node:timers/promises";\n';
    expect(complaints("time", "src/stores/local/store.ts", text).join("\n")).toMatch(
      /node:timers\/promises is banned/,
    );
  });

  it("may be spoken of in comments and strings, and used outside of core and stores", () => {
    const text =
      '// Date.now is banned.\nconst say = "setTimeout"; /* Math.random */ const update = /Date/;\n';
    expect(complaints("time", "src/core/thing.ts", text)).toEqual([]);
    expect(complaints("time", "src/system/node.ts", "const now = Date.now();")).toEqual([]);
  });
});

describe("long functions", () => {
  const body = (lines: number): string => "  step();\n".repeat(lines);

  const heads = [
    "function long(): void {",
    "export async function long(a: string, b = (1)): Promise<Map<string, number>> {",
    "const long = (): void => {",
    "class A { async #long(): Promise<{ a: string }> {",
    "class A { constructor(private_: string) {",
  ];
  it.each(heads)("have more than 60 lines: %s", (head) => {
    const end = head.startsWith("class") ? "}}\n" : "}\n";
    expect(complaints("functions", "src/core/thing.ts", `// Head.\n${head}\n${body(58)}${end}`)).toEqual([]);
    const found = complaints("functions", "src/core/thing.ts", `// Head.\n${head}\n${body(59)}${end}`);
    expect(found).toHaveLength(1);
    expect(found[0]).toMatch(/^src\/core\/thing\.ts:2: a function of 61 lines/);
  });

  it("are not classes, types or loops, and not in tests", () => {
    for (const head of [
      "class A {",
      "interface A {",
      "for (const a of b()) {",
      "if (a()) {",
      "for await (const a of b) {",
    ]) {
      expect(complaints("functions", "src/core/thing.ts", `// Head.\n${head}\n${body(80)}}\n`)).toEqual([]);
    }
    expect(complaints("functions", "src/a.test.ts", `describe("a", () => {\n${body(80)}});\n`)).toEqual([]);
  });
});

describe("a head comment", () => {
  it("is required in every language", () => {
    expect(complaints("headComment", "src/core/thing.ts", "export {};\n")[0]).toMatch(
      /^src\/core\/thing\.ts:1: no head comment/,
    );
    const script = "#!/usr/bin/env node\n// Head.\nexport {};\n";
    expect(complaints("headComment", "src/cli/main.ts", script)).toEqual([]);
    expect(complaints("headComment", "src/stores/redis/scripts/a.lua", "-- Head.\nreturn 1\n")).toEqual([]);
    expect(complaints("headComment", "src/stores/redis/scripts/a.lua", "return 1\n")).toHaveLength(1);
  });
});

describe("leftovers", () => {
  const banned: readonly [path: string, text: string][] = [
    ["src/core/a.ts", "// TODO: finish"],
    ["docs/a.md", "FIXME"],
    ["docs/a.md", "<<<<<<< HEAD"],
    ["scripts/a.mjs", 'const cache = "/root/.cache";'],
    ["docs/a.md", "see /home/bob/notes"],
    [".github/workflows/a.yml", "path: /Users/runner/x"],
    ["package-lock.json", '      "resolved": "https://example.com/a.tgz",'],
    ["test/unit/a.test.ts", 'it.skip("a", () => {})'],
    ["src/core/a.test.ts", 'describe.only("a", () => {})'],
    ["test/unit/a.test.ts", 'it.todo("a")'],
    ["test/unit/a.test.ts", 'it.concurrent.skip("a", () => {})'],
    ["test/unit/a.test.ts", 'it.skipIf(x)("a", () => {})'],
  ];
  it.each(banned)("in %s: %s", (path, text) => {
    const found = complaints("leftovers", path, `one line\n${text}\n`);
    expect(found).toHaveLength(1);
    expect(found[0]).toMatch(new RegExp(`^${path}:2: ".*" \\w+`));
  });

  it("are not words that only resemble them", () => {
    const text = "the root of the project, ./home/x, https://example.com/home/x, mysql://root@h/x, ~/x\n";
    expect(complaints("leftovers", "docs/a.md", text)).toEqual([]);
    expect(complaints("leftovers", "docs/a.md", "the options skip and only of a list")).toEqual([]);
    expect(complaints("leftovers", "test/a.ts", 'const path = "/home/ann/x";')).toEqual([]);
  });
});

describe("a lock file", () => {
  const lock = (packages: object): string => JSON.stringify({ packages });

  it("has an entry for every dependency, also for optional ones", () => {
    const parser = { optionalDependencies: { "@parser/mac": "1.0.0" } };
    const complete = {
      "": { devDependencies: { parser: "1.0.0" } },
      "node_modules/parser": parser,
      "node_modules/parser/node_modules/@parser/mac": {},
    };
    expect(complaints("lockFile", "package-lock.json", lock(complete))).toEqual([]);
    expect(complaints("lockFile", "package-lock.json", lock({ "node_modules/parser": parser }))).toEqual([
      "package-lock.json:1: node_modules/parser needs @parser/mac, which has no entry: npm ci will fail",
    ]);
    expect(complaints("lockFile", "bench/package-lock.json", lock({ "": complete[""] }))).toHaveLength(1);
    expect(complaints("lockFile", "bench/package-lock.json", lock({ "..": complete[""] }))).toEqual([]);
  });
});

describe("the width of lines", () => {
  const wide = "x".repeat(111);
  const file = (path: string, text: string): SourceFile => ({ path, text });
  const shown = (files: readonly SourceFile[], record: WideLines): string[] =>
    checkWidth(files, record).map(show);

  it.each([
    "a.ts",
    "a.mjs",
    "a.d.mts",
    "a.lua",
    "a.sql",
    "a.md",
    "a.c",
    ".github/workflows/a.yml",
    ".ci/run",
  ])("is checked in %s", (path) => {
    expect(wideLines(file(path, `ok\n${wide}\n${wide.slice(1)}\n`))).toEqual([2]);
  });

  it("is not checked where a line cannot be wrapped", () => {
    expect(wideLines(file("a.ts", `// see https://example.com/${wide}\n`))).toEqual([]);
    expect(wideLines(file("a.md", `| ${wide} |\n\`\`\`\n${wide}\n\`\`\`\n`))).toEqual([]);
    expect(wideLines(file("a.generated.ts", wide))).toEqual([]);
    expect(wideLines(file("a.json", wide))).toEqual([]);
  });

  it("is checked after a code block, and a shorter fence does not end the block", () => {
    const text = ["````", "```", wide, "```", wide, "````", wide].join("\n");
    expect(wideLines(file("a.md", text))).toEqual([7]);
  });

  it("counts characters, not UTF-16 units", () => {
    expect(wideLines(file("a.ts", "\u{1F512}".repeat(110)))).toEqual([]);
    expect(wideLines(file("a.ts", "\u{1F512}".repeat(111)))).toEqual([1]);
  });

  it("complains about more wide lines than recorded, with each place", () => {
    expect(shown([file("a.ts", `${wide}\n\n${wide}`)], { "a.ts": 1 })).toEqual([
      "a.ts:1: 2 wide lines, 1 recorded: wrap yours of 1, 3",
    ]);
    expect(shown([file("b.ts", wide)], {})).toEqual(["b.ts:1: wider than 110 characters: wrap lines 1"]);
    expect(shown([file("b.ts", wide)], { "b.ts": 1 })).toEqual([]);
  });

  it("complains about fewer wide lines than recorded", () => {
    expect(shown([file("a.ts", wide)], { "a.ts": 2, "gone.ts": 1 })).toEqual([
      "a.ts:1: 1 wide lines, 2 recorded: lower the number: run npm run tidy:lower",
      "gone.ts:1: 0 wide lines, 1 recorded: lower the number: run npm run tidy:lower",
    ]);
  });

  it("is recorded in numbers that only fall", () => {
    const one = file("a.ts", wide);
    expect(lowerRecord({ "a.ts": 2 }, [one])).toEqual({ record: { "a.ts": 1 }, rejected: [] });
    expect(lowerRecord({ "a.ts": 1 }, [file("a.ts", `${wide}\n${wide}`)]).rejected).toEqual(["a.ts"]);
    expect(lowerRecord({}, [one]).rejected).toEqual(["a.ts"]);
    expect(lowerRecord({ "a.ts": 1 }, [one, file("b.ts", wide)]).rejected).toEqual(["b.ts"]);
  });

  it("keeps the numbers of code that moves to another file", () => {
    const moved = lowerRecord({ "old.ts": 1 }, [file("new.ts", wide)]);
    expect(moved).toEqual({ record: { "new.ts": 1 }, rejected: [] });
    const split = lowerRecord({ "a.ts": 2 }, [file("a.ts", wide), file("b.ts", wide)]);
    expect(split).toEqual({ record: { "a.ts": 1, "b.ts": 1 }, rejected: [] });
    expect(lowerRecord({ "old.ts": 1 }, [file("new.ts", `${wide}\n${wide}`)]).rejected).toEqual(["new.ts"]);
  });
});

describe("the reader of sources", () => {
  it("keeps every character in its place", () => {
    const text = 'const a = "x // y"; // z\nconst b = `p ${f("q", `r`)} s`; /* t\n */ const c = 1 / 2 / 3;\n';
    const code = codeOf(text, { strings: false });
    expect(code).toHaveLength(text.length);
    expect(code.split("\n")).toEqual([
      "const a =         ;     ",
      "const b = `  ${f(   , ` `)}  `;     ",
      "    const c = 1 / 2 / 3;",
      "",
    ]);
    expect(codeOf(text, { strings: true })).toContain('"x // y"');
  });

  it("knows a regular expression from a division", () => {
    expect(codeOf("const a = /[/'\"]Date/.test(b) ? c / d : e;", { strings: false })).toMatch(
      /^const a = +\.test\(b\) \? c \/ d : e;$/,
    );
  });

  it("reads planted files from the disk, hidden ones too, and not what is not ours", () => {
    const root = mkdtempSync(join(tmpdir(), "holdfast-tidy-"));
    for (const path of [
      "src/a.ts",
      ".ci/run",
      "docs/b.md",
      "node_modules/c/d.ts",
      "dist/e.js",
      "f.png",
      ".gitignore",
    ]) {
      mkdirSync(join(root, path, ".."), { recursive: true });
      writeFileSync(join(root, path), "TODO");
    }
    const found = readTree(root)
      .flatMap((file) => rules.leftovers(file))
      .map((one) => one.path)
      .sort();
    rmSync(root, { recursive: true });
    expect(found).toEqual([".ci/run", ".gitignore", "docs/b.md", "src/a.ts"]);
  });
});
