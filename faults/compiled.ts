// The programs of a run as plain JavaScript, compiled once for each parent: to load TypeScript costs every process half a second
// of the processor, and a run starts many. They go away with the parent, or with the next one where it had no time for that.

import { execFile } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { promisify } from "node:util";

const ROOT: string = join(import.meta.dirname, "..");
const SCRATCH: string = join(ROOT, ".tmp");
const PROGRAMS = ["client", "resource"] as const;
export type ProgramName = (typeof PROGRAMS)[number];

let folder: Promise<string> | null = null;

/** Where a program is. Types are not checked here: that is done elsewhere. */
export async function compiled(program: ProgramName): Promise<string> {
  folder ??= compile();
  return join(await folder, "faults", `${program}.js`);
}

async function compile(): Promise<string> {
  mkdirSync(SCRATCH, { recursive: true });
  for (const left of readdirSync(SCRATCH)) {
    const parent = /^programs-(\d+)-/.exec(left)?.[1];
    if (parent !== undefined && !existsSync(`/proc/${parent}`)) remove(join(SCRATCH, left));
  }
  const out = mkdtempSync(join(SCRATCH, `programs-${process.pid}-`));
  process.once("exit", () => remove(out));
  const root = relative(out, ROOT);
  const project = join(out, "tsconfig.json");
  const quick = { noEmit: false, noCheck: true, declaration: false };
  const config = {
    extends: join(root, "tsconfig.json"),
    compilerOptions: { ...quick, rootDir: root, outDir: "." },
    include: [],
    files: PROGRAMS.map((name) => join(root, "faults", `${name}.ts`)),
  };
  writeFileSync(project, JSON.stringify(config));
  const compiler = createRequire(import.meta.url).resolve("typescript/package.json");
  await promisify(execFile)(process.execPath, [join(dirname(compiler), "bin", "tsc"), "-p", project]);
  return out;
}

function remove(path: string): void {
  rmSync(path, { recursive: true, force: true });
}
