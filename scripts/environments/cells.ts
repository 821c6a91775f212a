// Every environment that is tried, as one list, and how a cell of it runs: the tarball is installed by npm
// into a copy of an example of examples/environments/, and the example's `test` runs there.

import { execFile, execFileSync } from "node:child_process";
import { cpSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { npmEnvironment, subpaths } from "../packed.ts";
import { runtimeFolder, runtimeVersion } from "./runtimes.ts";
import { typescriptCells, typescriptPackages } from "./typescript.ts";

const run = promisify(execFile);
export const EXAMPLES = join(import.meta.dirname, "..", "..", "examples", "environments");
/** Only to end what hangs: on a busy machine the largest projects take more than ten minutes to install. */
const INSTALL_MS = 1_800_000;
const CELL_MS = 600_000;

const imported = subpaths.filter((name) => !name.endsWith(".json"));
const all = `[${imported.map((_, i) => `m${i}`).join(", ")}]`;
const required = imported.map((name, i) => `const m${i} = require("${name}");`).join("\n");
const asModules = imported.map((name, i) => `import * as m${i} from "${name}";`).join("\n");
const asImports = imported.map((name, i) => `import m${i} = require("${name}");`).join("\n");
const isEmpty = "(one) => Object.keys(one).length === 0";
const check = `if (${all}.some(${isEmpty})) throw new Error("an empty module");\n`;

/** Every subpath of the package, as a file beside each example. No optional client is installed. */
export const SUBPATH_SOURCES: Readonly<Record<string, string>> = {
  "subpaths.mjs": `${asModules}\n${check}`,
  "subpaths.cjs": `${required}\n${check}`,
  "subpaths.mts": `${asModules}\n${check}`,
  "subpaths.cts": `${asImports}\n${check}`,
};

export interface Cell {
  /** The table, the row and the column that show it. */
  readonly group: "Runtimes" | "Tools" | "TypeScript";
  readonly row: string;
  readonly column: string;
  readonly name: string;
  /** A folder of examples/environments. */
  readonly example: string;
  /** First on PATH: see runtimes.ts. */
  readonly runtimes: readonly string[];
  /** Instead of the example's own `test`. */
  readonly script?: string;
  /** After the example's own `test`. */
  readonly also?: string;
  /** How the script ends where the environment is to be refused. */
  readonly refusal?: RegExp;
}

/** Node 18 is refused on purpose: the table shows that it is, by name. */
const OLD_NODE =
  "node -e 'import(\"holdfast\").catch((error) => console.log(error.message))' && " +
  "node -e 'try { require(\"holdfast\") } catch (error) { console.log(error.message) }'; " +
  "holdfast ls; echo exit $?";
const REFUSAL = /^(holdfast needs Node 20\.19 or later.*\n){2}exit 64\n$/;

const NODES = ["20", "22", "24", "26"];
/** The lower bounds of `engines`, and the newest of each line. */
const NODE_VERSIONS = ["20.19.0", "20", "22.12.0", "22", "24", "26"];
/** Folders of examples/environments, with the packages that name the environment. */
const TOOLS: Readonly<Record<string, readonly string[]>> = {
  jest: ["jest"],
  "ts-jest": ["jest", "ts-jest"],
  vitest: ["vitest"],
  tsx: ["tsx"],
  swc: ["@swc/core"],
  esbuild: ["esbuild"],
  webpack: ["webpack"],
  rolldown: ["rolldown"],
  vite: ["vite"],
  next: ["next"],
  "bun-build": [],
};
/** Vitest 5 itself needs Node 22.12. */
const isOffered = (tool: string, node: string): boolean => tool !== "vitest" || node !== "20";

function runtimeCell(row: string, example: string, runtimes: readonly string[], program = "node"): Cell {
  const also = `${program} subpaths.mjs && ${program} subpaths.cjs`;
  return { group: "Runtimes", row, column: "result", name: row, example, runtimes, also };
}

export const cells: readonly Cell[] = [
  ...NODE_VERSIONS.map((version) => runtimeCell(`Node ${version}`, "node", [version])),
  { ...runtimeCell("Node 18 (refused by name)", "node", ["18"]), script: OLD_NODE, refusal: REFUSAL },
  runtimeCell("Bun", "bun", ["bun"], "bun"),
  runtimeCell("Deno", "deno", ["deno"], "deno run --allow-all"),
  ...Object.keys(TOOLS).flatMap((tool) =>
    NODES.filter((node) => isOffered(tool, node)).map((node): Cell => {
      const place = { row: tool, column: `Node ${node}`, name: `${tool}, Node ${node}` };
      return {
        group: "Tools",
        ...place,
        example: tool,
        runtimes: tool === "bun-build" ? [node, "bun"] : [node],
      };
    }),
  ),
  ...typescriptCells(),
];

export class Environments {
  readonly #dir: string;
  readonly #tarball: string;
  readonly #projects = new Map<string, string>();

  /** `tarball`: the packed package. `dir`: a folder for its projects and no others. */
  constructor(tarball: string, dir: string) {
    this.#dir = dir;
    this.#tarball = tarball;
  }

  /** Rejects with everything that the cell printed if it failed. */
  async run(cell: Cell): Promise<void> {
    const project = this.#project(cell.example);
    rmSync(join(project, "out"), { recursive: true, force: true });
    const { scripts } = readJson(join(project, "package.json")) as { readonly scripts: { test: string } };
    const folders = [...cell.runtimes.map(runtimeFolder), join(project, "node_modules", ".bin")];
    const PATH = [...folders, process.env["PATH"]].join(delimiter);
    const env = { ...npmEnvironment(), PATH, NO_COLOR: "1", CI: "1" };
    const options = { cwd: project, env, timeout: CELL_MS, maxBuffer: 64 * 1024 * 1024 };
    const script = cell.script ?? [scripts.test, cell.also].filter(Boolean).join(" && ");
    const ran = await run("sh", ["-c", script], options).then(
      ({ stdout, stderr }) => ({ stdout, text: stdout + stderr, isGood: true }),
      (error: { readonly stdout: string; readonly stderr: string; readonly message: string }) => ({
        stdout: error.stdout,
        text: `${error.message}\n${error.stdout}`,
        isGood: false,
      }),
    );
    const isGood =
      cell.refusal === undefined ? ran.isGood && WORKED.test(ran.text) : cell.refusal.test(ran.stdout);
    if (!isGood) throw new Error(ran.text);
  }

  /** What the cell was run with: of a tool, the packages as npm installed them. */
  versionOf({ group, row, example, runtimes }: Cell): string {
    if (group === "Runtimes") return runtimeVersion(runtimes[0] as string);
    if (example === "bun-build") return runtimeVersion("bun");
    const packages = group === "TypeScript" ? [`typescript-${row}`] : (TOOLS[example] ?? []);
    const versions = packages.map((name) => {
      const file = join(this.#project(example), "node_modules", name, "package.json");
      return (readJson(file) as { readonly version: string }).version;
    });
    if (group === "TypeScript" || packages.length === 1) return versions.join();
    return packages.map((name, i) => `${name} ${versions[i]}`).join(", ");
  }

  /** Installed once for all cells of an example. */
  #project(example: string): string {
    const known = this.#projects.get(example);
    if (known !== undefined) return known;
    const project = join(this.#dir, example);
    const installed = join(project, "node_modules", ".complete");
    if (existsSync(installed)) {
      this.#projects.set(example, project);
      return project;
    }
    rmSync(project, { recursive: true, force: true });
    cpSync(join(EXAMPLES, example), project, { recursive: true });
    const file = join(project, "package.json");
    const manifest = readJson(file) as {
      dependencies: Record<string, string>;
      devDependencies?: Record<string, string>;
    };
    manifest.dependencies["holdfast"] = `file:${this.#tarball}`;
    if (example === "typescript") Object.assign(manifest.devDependencies ?? {}, typescriptPackages());
    writeFileSync(file, JSON.stringify(manifest));
    for (const [name, text] of Object.entries(SUBPATH_SOURCES)) writeFileSync(join(project, name), text);
    const quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock", "--prefer-offline"];
    const options = { cwd: project, env: npmEnvironment(), timeout: INSTALL_MS };
    execFileSync("npm", ["install", ...quiet], { ...options, stdio: "pipe" });
    writeFileSync(installed, "");
    this.#projects.set(example, project);
    return project;
  }
}

/** What every example prints, or the summary of a test runner. */
const WORKED = /holdfast works|2 passed/;

function readJson(file: string): unknown {
  return JSON.parse(readFileSync(file, "utf8"));
}
