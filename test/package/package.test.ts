// The packed package in an empty project: what a stranger has after `npm install holdfast`, with no client and no server at hand.

import { execFile, execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { installPacked, manifest, type Project, subpaths } from "../../scripts/packed.ts";
import { builtDir } from "../support/built.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "..", "..");
const require = createRequire(import.meta.url);
const code = subpaths.filter((name) => !name.endsWith(".json"));
let dir: string;
let project: Project;

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "holdfast-package-"));
  project = installPacked(builtDir(), dir);
});

afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** A program in the project; what it printed. */
async function program(name: string, text: string): Promise<string> {
  writeFileSync(join(project.dir, name), text);
  const ran = await run(process.execPath, [name], { cwd: project.dir });
  expect(ran.stderr).toBe("");
  return ran.stdout;
}

describe("the packed package", () => {
  it("holds every file that it exports, with types, and none that only developers need", () => {
    for (const target of Object.values(manifest.exports)) {
      expect(existsSync(join(project.installed, target)), target).toBe(true);
      if (target.endsWith(".js"))
        expect(existsSync(join(project.installed, target.replace(/\.js$/, ".d.ts"))), target).toBe(true);
    }
    expect(readdirSync(project.installed).toSorted()).toEqual([...manifest.files, "package.json"].toSorted());
    const files = readdirSync(join(project.installed, "dist"), { recursive: true, encoding: "utf8" });
    expect(files.filter((name) => /\.[a-z]+$/.test(name) && !/(\.js|\.d\.ts)$/.test(name))).toEqual([]);
    expect(files.filter((name) => /\.test\.|(^|\/)fixture\./.test(name))).toEqual([]);
  });

  it("brings one other package, and no client of a server", () => {
    const beside = readdirSync(join(project.dir, "node_modules")).filter((name) => !name.startsWith("."));
    expect(beside.toSorted()).toEqual(["commander", "holdfast"]);
  });

  it("is imported by every subpath", async () => {
    const said = await program(
      "all.mjs",
      `for (const name of ${JSON.stringify(code)}) console.log(name, Object.keys(await import(name)).length > 0);\n`,
    );
    expect(said.trim().split("\n")).toEqual(code.map((name) => `${name} true`));
  });

  it("is required by every subpath, and is the same module as the imported one", async () => {
    const said = await program(
      "all.cjs",
      `(async () => { for (const name of ${JSON.stringify(code)})
         console.log(name, Object.entries(await import(name)).every(([key, value]) => require(name)[key] === value)); })();\n`,
    );
    expect(said.trim().split("\n")).toEqual(code.map((name) => `${name} true`));
  });

  it("has types that hold under the strictest check, without any client installed", async () => {
    for (const name of ["@types/node", "undici-types"])
      cpSync(join(root, "node_modules", name), join(project.dir, "node_modules", name), { recursive: true });
    const names = code.map((name, i) => `import * as m${i} from "${name}";`).join("\n");
    const use = `${names}\nvoid [${code.map((_, i) => `m${i}`).join(", ")}];
      m0.createLocks().using("k", async (lease) => lease.fence satisfies bigint);\n`;
    for (const file of ["types.mts", "types.cts"]) writeFileSync(join(project.dir, file), use);
    const tsc = join(dirname(require.resolve("typescript/package.json")), "bin", "tsc");
    const flags = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--types", "node"];
    const ran = run(process.execPath, [tsc, ...flags, "types.mts", "types.cts"], { cwd: project.dir });
    expect((await ran.catch((error: { stdout: string }) => error)).stdout).toBe("");
  });
});

describe("a newcomer", () => {
  it("locks without any server, in ten lines", async () => {
    const said = await program(
      "first.mjs",
      `import { createLocks } from "holdfast";
       const locks = createLocks("local:${join(dir, "locks")}");
       console.log(await locks.using("phone:139", async (lease) => lease.held && lease.fence > 0n));
       await locks.close();\n`,
    );
    expect(said).toBe("true\n");
  });

  it("has the command", () => {
    const command = join(project.dir, "node_modules", ".bin", "holdfast");
    const env = { ...process.env, HOLDFAST_STORE: `local:${join(dir, "locks")}` };
    const said = (...args: string[]): string => execFileSync(command, args, { encoding: "utf8", env });
    expect(said("run", "nightly", "--", "echo", "it runs")).toBe("it runs\n");
    expect(said("--version")).toBe(`${manifest.version}\n`);
  });

  const clients: readonly (readonly [url: string, fix: RegExp])[] = [
    ["redis://127.0.0.1:1", /npm i redis/],
    ["redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", /npm i redis/],
    ["mysql://root@127.0.0.1:1/db", /npm i mysql2/],
    ["postgres://127.0.0.1:1/db", /npm i pg/],
    ["etcd://127.0.0.1:1", /npm i @grpc\/grpc-js/],
  ];
  it("is told which client to install, for each store that needs one", async () => {
    const said = await program(
      "clients.mjs",
      `import { createLocks } from "holdfast";
       for (const url of ${JSON.stringify(clients.map(([url]) => url))}) {
         const locks = createLocks(url);
         await locks.acquire("k").catch((error) => console.log(error.code, error.message.replaceAll("\\n", " ")));
         await locks.close();
       }\n`,
    );
    const lines = said.trim().split("\n");
    expect(lines).toHaveLength(clients.length);
    clients.forEach(([, fix], i) => expect(lines[i]).toMatch(fix));
  });
});
