// A child program as one file in a directory of its own: it starts fast, and users who cannot read the clone can
// run it.

import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

export interface Bundle {
  readonly path: string;
  readonly folder: string;
  remove(): void;
}

/** `name` is a file of children/, without its ending. */
export async function bundleChild(name: string): Promise<Bundle> {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-bundle-"));
  const path = join(folder, `${name}.mjs`);
  await build({
    entryPoints: [fileURLToPath(new URL(`./children/${name}.ts`, import.meta.url))],
    outfile: path,
    bundle: true,
    platform: "node",
    format: "esm",
  });
  chmodSync(folder, 0o755);
  chmodSync(path, 0o644);
  return { path, folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}
