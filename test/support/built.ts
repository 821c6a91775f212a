// The compiled program, for tests that start it.

import { execFileSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { finishBuild } from "../../scripts/finish-build.mjs";

const root = join(import.meta.dirname, "..", "..");

/** dist/ where it is up to date; otherwise a build of its own, so that a test never runs yesterday's code. */
export function builtDir(): string {
  const newest = Math.max(...sources().map((file) => statSync(file).mtimeMs));
  const dist = join(root, "dist");
  const main = join(dist, "cli", "main.js");
  if (existsSync(main) && statSync(main).mtimeMs >= newest) return dist;
  const place = join(root, ".tmp", "built", `${Math.round(newest)}`);
  if (!existsSync(place)) buildInto(place);
  return join(place, "dist");
}

function sources(): string[] {
  const src = join(root, "src");
  const names = readdirSync(src, { recursive: true, encoding: "utf8" }).filter((name) =>
    /(?<!\.test)\.ts$/.test(name),
  );
  return names.map((name) => join(src, name));
}

/** Whole or not at all: another test may build at the same time. */
function buildInto(place: string): void {
  mkdirSync(dirname(place), { recursive: true });
  removeOld(dirname(place));
  const draft = mkdtempSync(`${place}-`);
  const tsc = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin", "tsc");
  execFileSync(process.execPath, [
    tsc,
    "-p",
    join(root, "tsconfig.build.json"),
    "--outDir",
    join(draft, "dist"),
  ]);
  finishBuild(join(draft, "dist"));
  copyFileSync(join(root, "package.json"), join(draft, "package.json"));
  execFileSync(process.execPath, [join(root, "scripts", "bundle-command.mjs"), join(draft, "dist")]);
  try {
    renameSync(draft, place);
  } catch {
    rmSync(draft, { recursive: true, force: true });
  }
}

/** Builds of an hour ago serve nobody. */
function removeOld(folder: string): void {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    if (Date.now() - statSync(path).mtimeMs > 3_600_000) rmSync(path, { recursive: true, force: true });
  }
}
