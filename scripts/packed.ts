// The package as its users get it: packed by npm, then unpacked into an empty project. Works without a
// network: what the package depends on is copied from this project's node_modules.

import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";

export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly main: string;
  readonly types: string;
  readonly typesVersions: Readonly<Record<"*", Readonly<Record<string, readonly string[]>>>>;
  readonly bin: Readonly<Record<string, string>>;
  readonly man: readonly string[];
  readonly files: readonly string[];
  readonly exports: Readonly<Record<string, string | Conditions>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly scripts?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

interface Target {
  readonly types: string;
  readonly default: string;
}

/** What a subpath resolves to, by the condition of the resolver. */
export type Conditions = Readonly<Record<"import" | "module-sync" | "require" | "default", Target>>;

export interface Project {
  /** The folder of the empty project. */
  readonly dir: string;
  readonly tarball: string;
  readonly installed: string;
}

const root = join(import.meta.dirname, "..");

export const manifest: Manifest = read(join(root, "package.json"));

/** Names to import: "holdfast", "holdfast/redis", and so on. */
export const subpaths: readonly string[] = Object.keys(manifest.exports).map(
  (path) => manifest.name + path.slice(1),
);

/** Packs by npm, so that `files` of the manifest counts. `dist`: the compiled program, wherever it is. */
export function pack(dist: string, dir: string): string {
  const staged = join(dir, "staged");
  mkdirSync(staged, { recursive: true });
  // As the release does: scripts and tools of this repository are nothing for users.
  const { scripts: _, devDependencies: __, ...published } = manifest;
  writeFileSync(join(staged, "package.json"), `${JSON.stringify(published, null, 2)}\n`);
  for (const name of manifest.files)
    if (!name.startsWith("!"))
      cpSync(name === "dist" ? dist : join(root, name), join(staged, name), { recursive: true });
  const args = ["pack", "--ignore-scripts", "--pack-destination", dir];
  execFileSync("npm", args, { cwd: staged, env: npmEnvironment(), stdio: "pipe", timeout: 600_000 });
  rmSync(staged, { recursive: true, force: true });
  return join(dir, readdirSync(dir).find((name) => name.endsWith(".tgz")) as string);
}

/** Unpacks the tarball as npm does, into an empty folder. `npm run environments` uses npm itself. */
export function installPacked(dist: string, dir: string): Project {
  const tarball = pack(dist, dir);
  const app = join(dir, "app");
  const modules = join(app, "node_modules");
  const installed = join(modules, manifest.name);
  mkdirSync(installed, { recursive: true });
  writeFileSync(join(app, "package.json"), '{ "name": "app", "version": "1.0.0", "private": true }\n');
  execFileSync("tar", ["-xzf", tarball, "--strip-components=1", "-C", installed]);
  for (const name of closure(manifest.dependencies ?? {}))
    cpSync(join(root, "node_modules", name), join(modules, name), { recursive: true });
  mkdirSync(join(modules, ".bin"));
  for (const [name, file] of Object.entries(manifest.bin))
    symlinkSync(join("..", manifest.name, file), join(modules, ".bin", name));
  return { dir: app, tarball, installed };
}

/** Whatever these depend on, and these. */
function closure(dependencies: Readonly<Record<string, string>>): Set<string> {
  const found = new Set<string>();
  const visit = (names: readonly string[]): void => {
    for (const name of names.filter((one) => !found.has(one))) {
      const file = join(root, "node_modules", name, "package.json");
      // An optional one that is not there is none.
      if (!existsSync(file)) continue;
      found.add(name);
      visit(Object.keys(read(file).dependencies ?? {}));
    }
  };
  visit(Object.keys(dependencies));
  return found;
}

function read(file: string): Manifest {
  return JSON.parse(readFileSync(file, "utf8")) as Manifest;
}

/** Settings that a surrounding `npm test` hands down are for its own project. */
export function npmEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name)));
}
