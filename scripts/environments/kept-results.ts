// The results of `npm run environments`, kept per cell with everything that the cell depends on.

import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { manifest, pack } from "../packed.ts";
import { type Cell, EXAMPLES, SUBPATH_SOURCES } from "./cells.ts";
import { runtimeVersion } from "./runtimes.ts";

export interface Result {
  readonly cell: Cell;
  /** What the cell was run with. */
  readonly version: string;
  readonly isGood: boolean;
  readonly date: string;
}

/** Projects of packages that nobody has run for so long are removed. */
const UNUSED_MS = 24 * 3_600_000;

export class KeptResults {
  /** Installed projects of the present package. */
  readonly projects: string;
  readonly #dist: string;
  readonly #results: string;
  readonly #package: string;
  readonly #versions = new Map<string, string>();

  /**
   * `dist`: the compiled program. `dir`: where results and projects stay between runs. It must not be inside
   * this repository, or bundlers and compilers would find its tsconfig.json and its node_modules.
   */
  constructor(dir: string, dist: string) {
    const { scripts: _, devDependencies: __, ...published } = manifest;
    this.#package = digestOf([JSON.stringify(published), ...contentsOf(dist)]);
    this.#dist = dist;
    this.#results = join(dir, "results");
    this.projects = join(dir, `package-${this.#package.slice(0, 12)}`);
    mkdirSync(this.#results, { recursive: true });
    mkdirSync(this.projects, { recursive: true });
    const now = new Date();
    utimesSync(this.projects, now, now);
    for (const name of readdirSync(dir).filter((one) => one.startsWith("package-")))
      if (now.getTime() - statSync(join(dir, name)).mtimeMs > UNUSED_MS)
        rmSync(join(dir, name), { recursive: true, force: true });
  }

  /** Packed once for all cells. */
  tarball(): string {
    const found = readdirSync(this.projects).find((name) => name.endsWith(".tgz"));
    return found === undefined ? pack(this.#dist, this.projects) : join(this.projects, found);
  }

  find(cell: Cell): Result | undefined {
    const file = this.#fileOf(cell);
    if (!existsSync(file)) return undefined;
    return { ...(JSON.parse(readFileSync(file, "utf8")) as Omit<Result, "cell">), cell };
  }

  keep({ cell, ...result }: Result): void {
    writeFileSync(this.#fileOf(cell), `${JSON.stringify(result)}\n`);
  }

  /** Named by everything that the outcome depends on. Tools have exact versions in the example. */
  #fileOf({ group, name, example, script, also, refusal, runtimes }: Cell): string {
    const versions = runtimes.map((runtime) => {
      const version = this.#versions.get(runtime) ?? runtimeVersion(runtime);
      this.#versions.set(runtime, version);
      return version;
    });
    const own = [group, name, script ?? "", also ?? "", String(refusal), ...versions];
    const files = [...Object.values(SUBPATH_SOURCES), ...contentsOf(join(EXAMPLES, example))];
    return join(this.#results, `${digestOf([this.#package, ...own, ...files])}.json`);
  }
}

function contentsOf(dir: string): string[] {
  return readdirSync(dir, { recursive: true, encoding: "utf8" })
    .toSorted()
    .filter((name) => statSync(join(dir, name)).isFile())
    .flatMap((name) => [name, readFileSync(join(dir, name), "utf8")]);
}

function digestOf(texts: readonly string[]): string {
  const hash = createHash("sha256");
  for (const text of texts) hash.update(`${text.length}\n${text}`);
  return hash.digest("hex");
}
