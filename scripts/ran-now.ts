// What is recorded beside every measured figure: the day, and what runs on this side of the connection.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const ROOT: string = join(import.meta.dirname, "..");

export interface RanNow {
  /** The day, as 2026-11-19. */
  readonly measured: string;
  readonly versions: Versions;
}

export interface Versions {
  readonly node: string;
  readonly holdfast: string;
  /** Git's hash of `src`: `git rev-parse COMMIT:src` of the commit that was run. */
  readonly source: string;
  readonly server?: string;
}

export function ranNow(): RanNow {
  const manifest = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
  const git = (...args: readonly string[]): string =>
    execFileSync("git", args, { cwd: ROOT, encoding: "utf8" }).trim();
  const changed = git("status", "--porcelain", "--", "src") === "" ? "" : " changed";
  const source = git("rev-parse", "HEAD:src").slice(0, 12) + changed;
  const versions = { node: process.version, holdfast: manifest.version, source };
  return { measured: new Date().toISOString().slice(0, 10), versions };
}
