// The packed package in an empty project: what a stranger has after `npm install holdfast`, with no client
// and no server at hand.

import { execFile, execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { build as esbuild } from "esbuild";
import { rolldown } from "rolldown";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Conditions, installPacked, manifest, type Project } from "../../scripts/packed.ts";
import { bundleBytes, imported, installed } from "../../scripts/sizes/measure.ts";
import { builtDir } from "../support/built.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "..", "..");
const require = createRequire(import.meta.url);
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
    const targets = Object.values(manifest.exports)
      .flatMap((target) => (typeof target === "string" ? [{ default: target }] : Object.values(target)))
      .flatMap((target): string[] => Object.values(target));
    for (const target of [...targets, ...oldResolverTargets()])
      expect(existsSync(join(project.installed, target)), target).toBe(true);
    const shipped = manifest.files.filter((name) => !name.startsWith("!"));
    expect(readdirSync(project.installed).toSorted()).toEqual([...shipped, "package.json"].toSorted());
    const files = readdirSync(join(project.installed, "dist"), { recursive: true, encoding: "utf8" });
    const odd = files.filter((name) => /\.[a-z]+$/.test(name) && !/(\.js|\.d\.ts|\.map|\.1)$/.test(name));
    expect(odd.toSorted()).toEqual([
      join("cjs", "package.json"),
      join("cli", "package.json"),
      "third-party-licenses.txt",
    ]);
    const all = readdirSync(project.installed, { recursive: true, encoding: "utf8" });
    expect(all.filter((name) => /\.test\.|(^|\/)fixture\./.test(name))).toEqual([]);
  });

  it("installs on every system, with what it brings: no os, cpu, install script or native code", () => {
    const all = readdirSync(join(project.dir, "node_modules"), { recursive: true, encoding: "utf8" });
    expect(all.filter((name) => /\.node$|binding\.gyp$/.test(name))).toEqual([]);
    for (const name of all.filter((one) => /^[^/]+\/package\.json$/.test(one))) {
      const text = readFileSync(join(project.dir, "node_modules", name), "utf8");
      const { os, cpu, libc, scripts = {} } = JSON.parse(text) as Record<string, Record<string, string>>;
      expect(
        [os, cpu, libc, scripts["preinstall"], scripts["install"], scripts["postinstall"]],
        name,
      ).toEqual(Array.from({ length: 6 }));
    }
  });

  it("shows users no script and no tool of this repository", () => {
    const text = readFileSync(join(project.installed, "package.json"), "utf8");
    expect(Object.keys(JSON.parse(text) as object)).not.toContain("scripts");
    expect(Object.keys(JSON.parse(text) as object)).not.toContain("devDependencies");
  });

  it("brings no other package, and no client of a server", () => {
    const beside = readdirSync(join(project.dir, "node_modules")).filter((name) => !name.startsWith("."));
    expect(beside.toSorted()).toEqual(["holdfast"]);
  });

  it("is imported by every subpath", async () => {
    const said = await program(
      "all.mjs",
      `for (const name of ${JSON.stringify(imported)})
         console.log(name, Object.keys(await import(name)).length > 0);\n`,
    );
    expect(said.trim().split("\n")).toEqual(imported.map((name) => `${name} true`));
  });

  it("is required by every subpath, and is the same module as the imported one", async () => {
    const said = await program(
      "all.cjs",
      `(async () => { for (const name of ${JSON.stringify(imported)})
         {
           const same = ([key, value]) => require(name)[key] === value;
           console.log(name, Object.entries(await import(name)).every(same));
         }
       })();\n`,
    );
    expect(said.trim().split("\n")).toEqual(imported.map((name) => `${name} true`));
  });

  it("has types that hold under the strictest check, without any client installed", async () => {
    for (const name of ["@types/node", "undici-types"])
      cpSync(join(root, "node_modules", name), join(project.dir, "node_modules", name), { recursive: true });
    const names = imported.map((name, i) => `import * as m${i} from "${name}";`).join("\n");
    const use = `${names}\nvoid [${imported.map((_, i) => `m${i}`).join(", ")}];
      m0.createLocks().using("k", async (lease) => lease.fence satisfies bigint);\n`;
    for (const file of ["types.mts", "types.cts"]) writeFileSync(join(project.dir, file), use);
    const tsc = join(dirname(require.resolve("typescript/package.json")), "bin", "tsc");
    // Other versions of TypeScript and other resolvers: environments.long.test.ts.
    const flags = ["--noEmit", "--strict", "--target", "es2022", "--types", "node", "--module", "nodenext"];
    const ran = run(process.execPath, [tsc, ...flags, "types.mts", "types.cts"], { cwd: project.dir });
    expect((await ran.catch((error: { stdout: string }) => error)).stdout).toBe("");
  });
});

/** What TypeScript's `node10` resolver and old bundlers read. */
function oldResolverTargets(): string[] {
  const { main, types, typesVersions } = manifest;
  expect(Object.keys(typesVersions["*"])).toEqual(
    imported.slice(1).map((name) => name.slice(`${manifest.name}/`.length)),
  );
  return [main, types, ...Object.values(typesVersions["*"]).flat()];
}

describe("the CommonJS copy", () => {
  // Jest knows no ES modules below Node 24.9 and takes the condition `require`.
  it("is complete, and locks", async () => {
    const files = Object.values(manifest.exports).flatMap((target) =>
      typeof target === "string" ? [] : [join(project.installed, target.require.default)],
    );
    const said = await program(
      "copy.cjs",
      `for (const file of ${JSON.stringify(files)})
         if (Object.keys(require(file)).length === 0) console.log(file);
       const { createLocks } = require(${JSON.stringify(files[0])});
       const locks = createLocks("memory:");
       (async () => {
         await locks.using("k", async (lease) => {
           const error = await locks.acquire("k", { wait: 0, within: undefined }).catch((thrown) => thrown);
           console.log(lease.held, error.code);
         });
         await locks.close();
       })();\n`,
    );
    expect(said).toBe("true ERR_LOCK_DEADLOCK\n");
  });

  it("shares the locks of a memory: URL with the ES modules", async () => {
    const { require: copy } = manifest.exports["."] as Conditions;
    const said = await program(
      "two-copies.mjs",
      `import { createRequire } from "node:module";
       import { createLocks } from "holdfast";
       const other = createRequire(import.meta.url)(${JSON.stringify(join(project.installed, copy.default))});
       const [one, two] = [createLocks("memory:"), other.createLocks("memory:")];
       const lease = await one.acquire("k");
       console.log(other.createLocks !== createLocks, await two.tryAcquire("k"));
       await lease.release();
       await Promise.all([one.close(), two.close()]);\n`,
    );
    expect(said).toBe("true null\n");
  });

  it("shares scopes and the deadlock detector with the ES modules (P15)", async () => {
    const { require: copy } = manifest.exports["."] as Conditions;
    const said = await program(
      "two-cores.mjs",
      `import { createRequire } from "node:module";
       import { createLocks, DeadlockError } from "holdfast";
       const other = createRequire(import.meta.url)(${JSON.stringify(join(project.installed, copy.default))});
       const [one, two] = [createLocks("memory:"), other.createLocks("memory:")];
       const codeOf = (call) => call.then(() => "granted", (error) => error.code);
       await one.using("own", async () => console.log(await codeOf(two.acquire("own", { wait: 60_000 }))));
       const outer = await one.acquire("outer");
       const inner = two.acquire("outer", { within: outer, wait: 60_000 });
       console.log(await inner.catch((error) => error instanceof DeadlockError && error.name));
       await outer.release();
       const crossing = (locks, first, second) =>
         locks.using(first, async () => {
           both -= 1;
           while (both > 0) await new Promise(setImmediate);
           await locks.using(second, { wait: 60_000 }, () => {});
         });
       let both = 2;
       const ends = await Promise.all([codeOf(crossing(one, "a", "b")), codeOf(crossing(two, "b", "a"))]);
       console.log(ends.sort().join());
       await Promise.all([one.close(), two.close()]);\n`,
    );
    expect(said.trim().split("\n")).toEqual([
      "ERR_LOCK_DEADLOCK",
      "DeadlockError",
      "ERR_LOCK_DEADLOCK,granted",
    ]);
  });

  it("tells the ES modules of a lost connection, so that they repeat the call (P8)", async () => {
    const { require: copy } = manifest.exports["."] as Conditions;
    const said = await program(
      "two-connections.mjs",
      `import { createRequire } from "node:module";
       import { createLocks } from "holdfast";
       import { memory } from "holdfast/memory";
       const other = createRequire(import.meta.url)(${JSON.stringify(join(project.installed, copy.default))});
       const store = memory();
       let breaks = 1;
       const open = async (context) => {
         const opened = await store.open(context);
         const { attempt } = opened;
         Object.defineProperty(opened, "direct", { value: undefined });
         opened.attempt = async (...args) => {
           breaks -= 1;
           if (breaks < 0) return await attempt.apply(opened, args);
           throw new other.StoreUnavailableError("the connection ended", { disconnected: true });
         };
         return opened;
       };
       const locks = createLocks({ ...store, open });
       console.log(await locks.tryAcquire("k").then((lease) => lease.held, (error) => error.message), breaks);
       await locks.close();\n`,
    );
    expect(said).toBe("true -1\n");
  });

  it("of another version shares nothing: its number is that of the package", () => {
    const text = readFileSync(join(root, "src", "core", "util", "process-wide.ts"), "utf8");
    expect(/VERSION = "(.*)"/.exec(text)?.[1]).toBe(manifest.version);
  });
});

describe("a bundle without any client installed", () => {
  const MEMORY = 'import { memory } from "holdfast/memory";\nimport { createLocks } from "holdfast/core";\n';
  const USE = `const locks = createLocks(STORE);
    console.log(await locks.using("k", (lease) => lease.held));
    await locks.close();\n`;
  const LARGEST_BYTES = 120_000;

  async function runs(file: string): Promise<void> {
    expect((await run(process.execPath, [file], { cwd: project.dir })).stdout).toBe("true\n");
  }

  it("is made by esbuild and rolldown, with every store in it", async () => {
    const entry = join(project.dir, "whole.mjs");
    const text = `import { createLocks } from "holdfast";\n${USE.replace("STORE", '"memory:"')}`;
    writeFileSync(entry, text);
    const [first, second] = [join(project.dir, "esbuild.out.mjs"), join(project.dir, "rolldown.out.mjs")];
    const made = await esbuild({ ...BUNDLE, entryPoints: [entry], outfile: first });
    expect(made.errors).toEqual([]);
    await runs(first);
    // It warns that the clients are not there.
    const bundle = await rolldown({ input: entry, platform: "node", onLog: () => {} });
    await bundle.write({ file: second, format: "esm", codeSplitting: false });
    await bundle.close();
    await runs(second);
  });

  it("is made by esbuild from CommonJS too", async () => {
    const entry = join(project.dir, "whole.cjs");
    writeFileSync(
      entry,
      'require("holdfast").createLocks("memory:").using("k", ({ held }) => console.log(held));\n',
    );
    const outfile = join(project.dir, "esbuild.out.cjs");
    const made = await esbuild({ ...BUNDLE, format: "cjs", entryPoints: [entry], outfile });
    expect(made.errors).toEqual([]);
    await runs(outfile);
  });

  it("is small with holdfast/core and one store", async () => {
    const entry = join(project.dir, "small.mjs");
    writeFileSync(entry, MEMORY + USE.replace("STORE", "memory()"));
    const outfile = join(project.dir, "small.out.mjs");
    const { metafile } = await esbuild({
      ...BUNDLE,
      entryPoints: [entry],
      outfile,
      minify: true,
      metafile: true,
    });
    const stores = Object.keys(metafile.inputs).flatMap((name) => /stores\/([a-z]+)\//.exec(name)?.[1] ?? []);
    expect([...new Set(stores)].toSorted()).toEqual(["memory", "shared"]);
    expect(statSync(outfile).size).toBeLessThan(LARGEST_BYTES);
    await runs(outfile);
  });
});

describe("docs/reference/package.md", () => {
  /** The page is measured now and then. Whoever doubles a size finds out here. */
  const TOLERANCE = 0.2;
  const page = readFileSync(join(root, "docs", "reference", "package.md"), "utf8");

  function expectNear(row: string, column: number, bytes: number): void {
    const line = page.split("\n").find((one) => one.startsWith(`| ${row} |`)) ?? "";
    const written = Number(line.split("|")[column]?.replace(/ kB|,/g, "")) * 1_000;
    const advice = `${row}: ${written} bytes in docs/reference/package.md, now ${bytes}: run npm run sizes`;
    expect(Math.abs(bytes / written - 1), advice).toBeLessThan(TOLERANCE);
  }

  it("has the sizes of the tarball and of a bundle of each subpath", async () => {
    const { tarball, own } = installed(project);
    expectNear("the tarball", 2, tarball);
    expectNear("unpacked", 2, own.bytes);
    for (const name of imported) expectNear(`\`${name}\``, 2, await bundleBytes(project, name));
  });
});

const BUNDLE = { bundle: true, platform: "node", format: "esm", logLevel: "silent" } as const;

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

  it("has a manual page for the command and for each of its commands", () => {
    const pages = manifest.man.map((page) => readFileSync(join(project.installed, page), "utf8"));
    for (const page of pages) expect(page).toMatch(/^\.TH HOLDFAST[A-Z-]* 1 .*\n\.SH NAME\n/);
    expect(readdirSync(join(project.installed, "dist", "man")).toSorted()).toEqual(
      manifest.man.map((page) => page.slice("./dist/man/".length)).toSorted(),
    );
  });

  it("has the command", () => {
    const command = join(project.dir, "node_modules", ".bin", "holdfast");
    const env = { ...process.env, HOLDFAST_STORE: `local:${join(dir, "locks")}` };
    const said = (...args: string[]): string => execFileSync(command, args, { encoding: "utf8", env });
    expect(said("run", "nightly", "--", "echo", "it runs")).toBe("it runs\n");
    expect(said("--version")).toBe(`${manifest.version}\n`);
  });

  const clients: readonly (readonly [url: string, fix: RegExp])[] = [
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
         const error = await locks.acquire("k").catch((thrown) => thrown);
         console.log(error.name, error.message.replaceAll("\\n", " "));
         await locks.close();
       }\n`,
    );
    const lines = said.trim().split("\n");
    expect(lines).toHaveLength(clients.length);
    clients.forEach(([, fix], i) => expect(lines[i]).toMatch(fix));
    // Waiting would not help: it says so at once.
    for (const line of lines) expect(line).toMatch(/^UnsupportedError /);
  });
});
