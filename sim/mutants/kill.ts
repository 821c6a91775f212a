// Applies one mutant to a copy of the source, checks that its types are still green, and runs the simulator over the copy
// until a checker objects. `npm run mutants` does so for all and writes sim/mutants/killed.json.

import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Mutant } from "./list.ts";
import type { UnitMutant } from "./unit-list.ts";

type Edited = Pick<Mutant, "name" | "file" | "edits"> & Pick<UnitMutant, "needsServer">;

/** What tests with servers need beside the sources. */
const SERVER_TESTS = ["test", "faults", "bench", "examples", "scripts", "vitest.config.ts"];

const root = join(import.meta.dirname, "..", "..");

export interface Killed {
  readonly mutant: string;
  /** The checker that saw it first, or null when it survived. */
  readonly by: string | null;
  readonly runs: number;
  readonly seconds: number;
}

export function kill(mutant: Mutant, seed: number, runs: number): Killed {
  return inCopy(mutant, (copy) => hunt(copy, mutant, seed, runs));
}

/** Whether a unit test fails over the mutant. */
export function killByTests(mutant: UnitMutant): Killed {
  return inCopy(mutant, (copy) => {
    const startedMs = performance.now();
    const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
    const args = [vitest, "run", "--no-color", "--root", copy, ...mutant.tests];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, {
      cwd: copy,
      encoding: "utf8",
      timeout: 300_000,
    });
    // Tests that could not be run have seen nothing.
    if (!/Tests .*\d+ (passed|failed)/.test(stdout))
      throw new Error(`"${mutant.name}": the tests could not be run: ${stderr}${stdout}`);
    const seconds = (performance.now() - startedMs) / 1_000;
    return { mutant: mutant.name, by: status === 0 ? null : "unit tests", runs: 1, seconds };
  });
}

function inCopy(mutant: Edited, run: (copy: string) => Killed): Killed {
  const copy = join(root, ".tmp", "mutants", mutant.name.replaceAll(/[^a-z]+/gi, "-"));
  rmSync(copy, { recursive: true, force: true });
  mkdirSync(copy, { recursive: true });
  try {
    for (const folder of ["src", "sim"]) cpSync(join(root, folder), join(copy, folder), { recursive: true });
    const more = mutant.needsServer === true ? SERVER_TESTS : [];
    for (const path of more) cpSync(join(root, path), join(copy, path), { recursive: true });
    for (const file of ["package.json", "tsconfig.json", join("scripts", "lua.mjs")])
      cpSync(join(root, file), join(copy, file));
    symlinkSync(join(root, "node_modules"), join(copy, "node_modules"));
    edit(join(copy, "src"), mutant);
    if (touches(mutant, ".lua")) execFileSync(process.execPath, [join(copy, "scripts", "lua.mjs")]);
    if (touches(mutant, ".sql")) execFileSync(process.execPath, [join(copy, "scripts", "sql.mjs")]);
    if (touches(mutant, ".ts")) types(copy, mutant);
    return run(copy);
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

/** Each edit must fit exactly once: a mutant that no longer applies is a mutant that nobody checks. */
function edit(src: string, mutant: Edited): void {
  for (const { find, put, file = mutant.file } of mutant.edits) {
    const path = join(src, file);
    const parts = readFileSync(path, "utf8").split(find);
    if (parts.length !== 2)
      throw new Error(`"${mutant.name}" fits ${parts.length - 1} times in ${file}: ${find}`);
    writeFileSync(path, parts.join(put));
  }
}

function touches(mutant: Edited, ending: string): boolean {
  return mutant.edits.some(({ file = mutant.file }) => file.endsWith(ending));
}

function types(copy: string, mutant: Edited): void {
  const config = join(copy, "tsconfig.mutant.json");
  const loose = { noUnusedLocals: false, noUnusedParameters: false };
  writeFileSync(
    config,
    JSON.stringify({
      extends: "./tsconfig.json",
      compilerOptions: loose,
      include: ["src/core", "src/stores"],
      exclude: ["**/*.test.ts", "**/fixture.ts"],
    }),
  );
  try {
    execFileSync(
      process.execPath,
      [join(root, "node_modules", "typescript", "bin", "tsc"), "--noEmit", "-p", config],
      { cwd: copy },
    );
  } catch (error) {
    throw new Error(`"${mutant.name}" does not compile:\n${String((error as { stdout?: Buffer }).stdout)}`, {
      cause: error,
    });
  }
}

function hunt(copy: string, mutant: Mutant, seed: number, runs: number): Killed {
  const args = [
    "--import",
    "tsx",
    join(copy, "sim", "mutants", "hunt.ts"),
    String(seed),
    String(runs),
    mutant.killers.join(),
    mutant.store ?? "memory",
  ];
  const { stdout, stderr, status } = spawnSync(process.execPath, args, {
    cwd: copy,
    encoding: "utf8",
    timeout: 300_000,
  });
  if (status !== 0) throw new Error(`"${mutant.name}": the hunt failed: ${stderr}${stdout}`);
  return { mutant: mutant.name, ...(JSON.parse(stdout) as Omit<Killed, "mutant">) };
}
