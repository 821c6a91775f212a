// What the package costs to install, to import and to bundle, measured on the packed package.

import { execFileSync } from "node:child_process";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { type Project, subpaths } from "../packed.ts";

export interface Installed {
  readonly tarball: number;
  readonly own: Files;
  readonly all: Files;
  readonly packages: number;
}

export interface Files {
  readonly files: number;
  readonly bytes: number;
}

/** Subpaths with code, as they are imported. */
export const imported: readonly string[] = subpaths.filter((name) => !name.endsWith(".json"));

export function installed({ dir, tarball, installed: own }: Project): Installed {
  const modules = join(dir, "node_modules");
  const packages = readdirSync(modules).filter((name) => !name.startsWith(".")).length;
  return { tarball: statSync(tarball).size, own: sizeOf(own), all: sizeOf(modules), packages };
}

function sizeOf(path: string): Files {
  const files = readdirSync(path, { recursive: true, encoding: "utf8" })
    .map((name) => statSync(join(path, name)))
    .filter((entry) => entry.isFile());
  return { files: files.length, bytes: files.reduce((sum, { size }) => sum + size, 0) };
}

/** Bytes of a minified bundle that can use everything of the subpath; of a store with holdfast/core. */
export async function bundleBytes({ dir }: Project, name: string): Promise<number> {
  const names = /\/(core|fence|testing)$|^[^/]*$/.test(name) ? [name] : [name, "holdfast/core"];
  const contents = names.map((one, i) => `export * as m${i} from ${JSON.stringify(one)};`).join("\n");
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: dir },
    ...{ bundle: true, platform: "node", format: "esm", minify: true, write: false, logLevel: "silent" },
  });
  return (outputFiles[0] as { readonly contents: Uint8Array }).contents.length;
}

/** In a process of its own: the middle of `runs`. */
export function importMs({ dir }: Project, name: string, runs: number): number {
  const script = `
    const start = performance.now();
    await import(${JSON.stringify(name)});
    console.log(performance.now() - start);`;
  const args = ["--input-type=module", "-e", script];
  const times = Array.from({ length: runs }, () =>
    Number(execFileSync(process.execPath, args, { cwd: dir })),
  );
  return times.toSorted((a, b) => a - b)[Math.floor(runs / 2)] as number;
}

/** The files of node_modules that an import reads, by the hooks of Node's own loader. */
export function readFiles({ dir }: Project, name: string): Files {
  const loader = `export async function load(url, context, next) {
    if (url.startsWith("file:")) (await import("node:fs")).writeSync(1, new URL(url).pathname + "\\n");
    return next(url, context);
  }`;
  const script = `
    import { register } from "node:module";
    register("data:text/javascript," + encodeURIComponent(${JSON.stringify(loader)}));
    await import(${JSON.stringify(name)});`;
  const args = ["--input-type=module", "-e", script];
  const said = execFileSync(process.execPath, args, { cwd: dir, encoding: "utf8" });
  const files = [...new Set(said.trim().split("\n"))].filter((file) => file.includes("node_modules"));
  return { files: files.length, bytes: files.reduce((sum, file) => sum + statSync(file).size, 0) };
}
