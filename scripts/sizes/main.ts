// `npm run sizes`: what the package costs to install, to import and to bundle, into
// docs/reference/package.md.

import { mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { figure, markdownTable, writeParts } from "../generated.ts";
import { installPacked } from "../packed.ts";
import { bundleBytes, imported, importMs, installed, readFiles } from "./measure.ts";

const root = join(import.meta.dirname, "..", "..");
const RUNS = 5;
const kilobytes = (bytes: number): string => `${figure(bytes / 1_000)} kB`;

const dir = mkdtempSync(join(tmpdir(), "holdfast-sizes-"));
try {
  const project = installPacked(join(root, "dist"), dir);
  const { tarball, own, all, packages } = installed(project);
  const install = markdownTable(
    ["", "size", "files"],
    [
      ["the tarball", kilobytes(tarball), ""],
      ["unpacked", kilobytes(own.bytes), own.files],
      [`node_modules after \`npm install holdfast\`: ${packages} packages`, kilobytes(all.bytes), all.files],
    ],
  );
  const rows = [];
  for (const name of imported) {
    const { files, bytes } = readFiles(project, name);
    const ms = importMs(project, name, RUNS).toFixed(0);
    rows.push([
      `\`${name}\``,
      kilobytes(await bundleBytes(project, name)),
      `${ms} ms`,
      files,
      kilobytes(bytes),
    ]);
  }
  const table = markdownTable(["import", "bundle", "time", "files read", "of size"], rows);
  const load = `load ${figure(loadavg()[0])} on ${availableParallelism()} cores`;
  const note = `Times: Node ${process.version}, ${RUNS} processes each, the middle one, at a ${load}.`;
  writeParts(join(root, "docs", "reference", "package.md"), { sizes: `${install}\n\n${table}\n\n${note}` });
  console.log(`${install}\n\n${table}`);
} finally {
  rmSync(dir, { recursive: true, force: true });
}
