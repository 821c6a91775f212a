// `npm run sizes`: what the package costs to install and to import, measured on the packed package in an empty project, into docs/package.md.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { figure, markdownTable, writeParts } from "./generated.ts";
import { installPacked, type Project, subpaths } from "./packed.ts";

const root = join(import.meta.dirname, "..");
const RUNS = 5;

interface Import {
  readonly ms: number;
  readonly files: number;
  readonly bytes: number;
}

function sizeOf(path: string): { files: number; bytes: number } {
  const files = readdirSync(path, { recursive: true, encoding: "utf8" })
    .map((name) => statSync(join(path, name)))
    .filter((entry) => entry.isFile());
  return { files: files.length, bytes: files.reduce((sum, { size }) => sum + size, 0) };
}

/** In a process of its own: which files of node_modules are read, and how long it takes. */
function importOf(project: Project, name: string): Import {
  const script = `
    const start = performance.now();
    await import(${JSON.stringify(name)});
    console.log(performance.now() - start);`;
  const times = Array.from({ length: RUNS }, () =>
    Number(execFileSync(process.execPath, ["--input-type=module", "-e", script], { cwd: project.dir })),
  );
  const files = graph(project, name);
  const bytes = files.reduce((sum, file) => sum + statSync(file).size, 0);
  return { ms: times.toSorted((a, b) => a - b)[Math.floor(RUNS / 2)] as number, files: files.length, bytes };
}

/** Node itself tells what it loaded: the loader's trace of files, one per line. */
function graph(project: Project, name: string): string[] {
  const loader = `export async function load(url, context, next) {
    if (url.startsWith("file:")) (await import("node:fs")).writeSync(1, new URL(url).pathname + "\\n");
    return next(url, context);
  }`;
  const script = `
    import { register } from "node:module";
    register("data:text/javascript," + encodeURIComponent(${JSON.stringify(loader)}));
    await import(${JSON.stringify(name)});`;
  const said = execFileSync(process.execPath, ["--input-type=module", "-e", script], {
    cwd: project.dir,
    encoding: "utf8",
  });
  return [...new Set(said.trim().split("\n"))].filter((file) => file.includes("node_modules"));
}

const kilobytes = (bytes: number): string => `${figure(bytes / 1_000)} kB`;

const dir = mkdtempSync(join(tmpdir(), "holdfast-sizes-"));
try {
  const project = installPacked(join(root, "dist"), dir);
  const modules = join(project.dir, "node_modules");
  const packages = readdirSync(modules).filter((name) => !name.startsWith("."));
  const [own, all] = [sizeOf(project.installed), sizeOf(modules)];
  const install = markdownTable(
    ["", "size", "files"],
    [
      ["the tarball", kilobytes(statSync(project.tarball).size), ""],
      ["unpacked", kilobytes(own.bytes), own.files],
      [
        `node_modules after \`npm install holdfast\`: ${packages.length} packages`,
        kilobytes(all.bytes),
        all.files,
      ],
    ],
  );
  const imports = subpaths
    .filter((name) => !name.endsWith(".json"))
    .map((name) => {
      const { ms, files, bytes } = importOf(project, name);
      return [`\`${name}\``, `${ms.toFixed(0)} ms`, files, kilobytes(bytes)];
    });
  const table = markdownTable(["import", "time", "files read", "of size"], imports);
  const note = `Node ${process.version}, ${RUNS} processes each, the middle one.`;
  writeParts(join(root, "docs", "package.md"), { sizes: `${install}\n\n${table}\n\n${note}` });
  console.log(`${install}\n\n${table}`);
} finally {
  rmSync(dir, { recursive: true, force: true });
}
