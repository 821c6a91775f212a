// A lock file is complete: it has an entry for every dependency that it names, also for those of other
// platforms. npm ci rejects an incomplete file on every machine. npm install writes one if a package is not
// available.

import type { Complaint, SourceFile } from "./tree.ts";

interface Entry {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

export function checkLockFile(file: SourceFile): Complaint[] {
  if (!/(^|\/)package-lock\.json$/.test(file.path)) return [];
  const { packages } = JSON.parse(file.text) as { packages: Readonly<Record<string, Entry>> };
  const installed = new Set(Object.keys(packages).map((path) => path.split("node_modules/").at(-1)));
  // A linked folder, such as "..", has a lock file of its own.
  const own = Object.entries(packages).filter(([path]) => path === "" || path.includes("node_modules/"));
  return own.flatMap(([path, entry]) => {
    const named = { ...entry.dependencies, ...entry.devDependencies, ...entry.optionalDependencies };
    return Object.keys(named)
      .filter((name) => !installed.has(name))
      .map((name) => ({
        path: file.path,
        line: 1,
        message: `${path === "" ? "the project" : path} needs ${name}, which has no entry: npm ci will fail`,
      }));
  });
}
