// Proof that each style rule sees the mistake it is for, and lets pass what is right: every mistake is planted here.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { importsOf } from "./imports.ts";
import { rules } from "./rules.ts";
import { codeOf } from "./scan.ts";
import { readTree, show } from "./tree.ts";

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
    ["core/actor.ts", 'import { readFile } from "node:fs/promises";'],
    ["core/locks.ts", 'import { program } from "commander";'],
    ["core/locks.ts", 'import { nodeSystem } from "../system/node.ts";'],
    ["stores/redis/store.ts", 'import { HoldfastLocks } from "../../core/locks.ts";'],
    ["stores/redis/store.ts", 'import type { Lease } from "../../core/lease.ts";'],
    ["stores/redis/store.ts", 'import { quorum } from "../redlock/quorum.ts";'],
    ["stores/redlock/store.ts", 'import { RedisStore } from "../redis/store.ts";'],
    ["stores/redis/store.ts", 'import { nodeSystem } from "../../system/node.ts";'],
    ["stores/shared/ledger.ts", 'import { memory } from "../memory/index.ts";'],
    ["stores/url.ts", 'import { MemoryStore } from "./memory/store.ts";'],
    ["cli/run.ts", 'import { toMs } from "../core/duration.ts";'],
    ["cli/run.ts", 'import { LocalStore } from "../stores/local/store.ts";'],
    ["testing/party.ts", 'import { HoldfastLocks } from "../core/locks.ts";'],
    ["index.ts", 'export { memory } from "./stores/memory/index.ts";'],
    ["create-locks.ts", 'import { world } from "../sim/world.ts";'],
    ["stores/memory/store.ts", 'export * from "../../../test/unit/thing.ts";'],
    ["cli/run.ts", 'import "../../bench/main.ts";'],
    ["somewhere/new.ts", "export {};"],
  ];
  it.each(refused)("src/%s may not say %s", (path, statement) => {
    const found = complaints("imports", `src/${path}`, `// Head.\n\n${statement}\n`);
    expect(found).toHaveLength(1);
    expect(found[0]).toMatch(new RegExp(`^src/${path}:[13]: .*\\(design: imports\\)$`));
  });

  const allowed: readonly [path: string, statement: string][] = [
    ["core/store.ts", 'import type { System } from "./system.ts";'],
    ["core/actor.ts", 'import { AsyncLocalStorage } from "node:async_hooks";'],
    ["core/locks.ts", 'import { Line } from "./line.ts";'],
    ["stores/local/store.ts", 'import { type Store, type System } from "../../core/store.ts";'],
    ["stores/local/store.ts", 'import { readFile } from "node:fs/promises";'],
    ["stores/local/store.ts", 'import native from "fs-native-extensions";'],
    ["stores/local/store.ts", 'import { Ledger } from "../shared/ledger.ts";'],
    ["stores/redis/store.ts", 'import { connect } from "./adapters/ioredis.ts";'],
    ["stores/redlock/quorum.ts", 'import type { RedisPort } from "../redis/port.ts";'],
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
      expect(found[0]).toMatch(
        /^src\/(core|stores\/redis)\/thing\.ts:3: \S+ is banned, use system\..* \(design: time\)$/,
      );
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

describe("sizes", () => {
  const body = (lines: number): string => "  step();\n".repeat(lines);

  it("of files are at most 300 lines", () => {
    expect(complaints("sizes", "src/core/thing.ts", `// Head.\n${body(299)}`)).toEqual([]);
    expect(complaints("sizes", "src/core/thing.ts", `// Head.\n${body(300)}`)[0]).toMatch(
      /^src\/core\/thing\.ts:301: 301 lines/,
    );
  });

  const heads = [
    "function long(): void {",
    "export async function long(a: string, b = (1)): Promise<Map<string, number>> {",
    "const long = (): void => {",
    "class A { async #long(): Promise<{ a: string }> {",
    "class A { constructor(private_: string) {",
  ];
  it.each(heads)("of functions are at most 60 lines: %s", (head) => {
    const end = head.startsWith("class") ? "}}\n" : "}\n";
    expect(complaints("sizes", "src/core/thing.ts", `// Head.\n${head}\n${body(58)}${end}`)).toEqual([]);
    const found = complaints("sizes", "src/core/thing.ts", `// Head.\n${head}\n${body(59)}${end}`);
    expect(found).toHaveLength(1);
    expect(found[0]).toMatch(/^src\/core\/thing\.ts:2: a function of 61 lines/);
  });

  it("of classes, types and loops are not those of functions", () => {
    for (const head of [
      "class A {",
      "interface A {",
      "for (const a of b()) {",
      "if (a()) {",
      "for await (const a of b) {",
    ]) {
      expect(complaints("sizes", "src/core/thing.ts", `// Head.\n${head}\n${body(80)}}\n`)).toEqual([]);
    }
  });

  it("include a head comment, in every language", () => {
    expect(complaints("sizes", "src/core/thing.ts", "export {};\n")[0]).toMatch(
      /^src\/core\/thing\.ts:1: no head comment/,
    );
    expect(complaints("sizes", "src/cli/main.ts", "#!/usr/bin/env node\n// Head.\nexport {};\n")).toEqual([]);
    expect(complaints("sizes", "src/stores/redis/scripts/a.lua", "-- Head.\nreturn 1\n")).toEqual([]);
    expect(complaints("sizes", "src/stores/redis/scripts/a.lua", "return 1\n")).toHaveLength(1);
  });
});

describe("words", () => {
  const banned: readonly [path: string, text: string][] = [
    ["docs/a.md", "see /work/main"],
    ["scripts/a.mjs", 'const home = "/root/.cache";'],
    ["docs/a.md", "in /farm/bin"],
    [".npmrc", "registry=https://registry.npmjs.org/"],
    ["scripts/a.ts", '"http://deb.debian.org/debian"'],
    ["docs/a.md", "from https://mirrors.example.com/debian"],
    ["package-lock.json", '      "resolved": "https://example.com/a.tgz",'],
    ["src/core/a.ts", "// TODO: finish"],
    ["src/core/a.ts", "// FIXME"],
    ["test/unit/a.ts", "// XXX"],
    ["src/core/a.ts", 'throw new Error("not implemented")'],
    ["docs/a.md", "this is enough for now"],
    ["docs/a.md", "as issue #12 says"],
    ["CHANGELOG.md", "Issue 1: the start"],
    ["README.md", "as the brief wants"],
    ["README.md", "a session note"],
    ["README.md", "the founder decided"],
    ["README.md", "used at ByteDance"],
    ["README.md", "字节跳动"],
    ["README.md", "https://www.jianshu.com/p/1"],
    ["README.md", "https://i.postimg.cc/x.png"],
    ["test/unit/a.test.ts", 'it.skip("a", () => {})'],
    ["test/unit/a.test.ts", 'describe.only("a", () => {})'],
    ["test/unit/a.test.ts", 'it.todo("a")'],
    ["test/unit/a.test.ts", 'it.concurrent.skip("a", () => {})'],
    ["test/unit/a.test.ts", 'it.skipIf(x)("a", () => {})'],
    ["test/unit/a.test.ts", 'xit("a", () => {})'],
    ["test/unit/a.test.ts", 'it("a", { retry: 2 }, () => {})'],
  ];
  it.each(banned)("in %s: %s", (path, text) => {
    const found = complaints("words", path, `one line\n${text}\n`);
    expect(found).toHaveLength(1);
    expect(found[0]).toMatch(/:2: ".*" is .*\(style: words\)$/);
  });

  it("that only look like it pass", () => {
    const text =
      "a network/work/path, the root of the project, mktemp -d foo.XXXXXX, the brief moment between\n";
    expect(complaints("words", "docs/a.md", text)).toEqual([]);
    expect(complaints("words", "docs/a.md", "the options skip and only of a list")).toEqual([]);
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
      writeFileSync(join(root, path), "for now");
    }
    const found = readTree(root)
      .flatMap((file) => rules.words(file))
      .map((one) => one.path)
      .sort();
    rmSync(root, { recursive: true });
    expect(found).toEqual([".ci/run", ".gitignore", "docs/b.md", "src/a.ts"]);
  });
});
