// The package as its users get it: packed by npm, then installed into an empty project of its own. Works without a network: what the
// package depends on is copied from this project's node_modules, and npm, which is offline, takes away what nobody declared.

import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly main: string;
  readonly types: string;
  readonly typesVersions: Readonly<Record<"*", Readonly<Record<string, readonly string[]>>>>;
  readonly files: readonly string[];
  readonly exports: Readonly<Record<string, string | Conditions>>;
  readonly dependencies?: Readonly<Record<string, string>>;
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

/** `dist`: the compiled program, wherever it was built. `dir`: an empty folder. */
export function installPacked(dist: string, dir: string): Project {
  const staged = join(dir, "staged");
  const app = join(dir, "app");
  for (const folder of [staged, join(app, "node_modules")]) mkdirSync(folder, { recursive: true });
  cpSync(join(root, "package.json"), join(staged, "package.json"));
  for (const name of manifest.files)
    if (!name.startsWith("!"))
      cpSync(name === "dist" ? dist : join(root, name), join(staged, name), { recursive: true });
  npm(["pack", "--ignore-scripts", "--pack-destination", dir], staged);
  const tarball = join(dir, readdirSync(dir).find((name) => name.endsWith(".tgz")) as string);
  writeFileSync(join(app, "package.json"), '{ "name": "app", "version": "1.0.0", "private": true }\n');
  for (const name of closure(manifest.dependencies ?? {}))
    cpSync(join(root, "node_modules", name), join(app, "node_modules", name), { recursive: true });
  npm(["install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", tarball], app);
  return { dir: app, tarball, installed: join(app, "node_modules", manifest.name) };
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

function npm(args: readonly string[], cwd: string): void {
  // Settings that a surrounding `npm test` hands down are for its own project.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name)));
  execFileSync("npm", args, { cwd, env, stdio: "pipe", timeout: 60_000 });
}
