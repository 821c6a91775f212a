// A process of another user. That user may not be able to read the clone, so it runs a bundle in a directory of its own.

import { spawn } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { actor, Child, heard } from "./fixture.ts";

/** The user and group `nobody`. */
export const OTHER_USER = 65_534;

/** An actor of another user if this one is root, else one more of the same user. */
export async function otherUsersActor(dir: string): Promise<Child> {
  if (process.geteuid?.() !== 0) return actor(dir);
  const folder = mkdtempSync(join(tmpdir(), "holdfast-copy-"));
  const bundle = join(folder, "actor.mjs");
  await build({
    entryPoints: [fileURLToPath(new URL("./children/actor.ts", import.meta.url))],
    outfile: bundle,
    bundle: true,
    platform: "node",
    format: "esm",
  });
  chmodSync(folder, 0o755);
  chmodSync(bundle, 0o644);
  const user = [`--reuid=${OTHER_USER}`, `--regid=${OTHER_USER}`, "--clear-groups"];
  const one = new Child(
    spawn("setpriv", [...user, process.execPath, bundle, dir], {
      stdio: ["pipe", "pipe", "inherit"],
      cwd: folder,
    }),
  );
  one.process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  const first = await heard(one);
  if (typeof first["ready"] !== "number") throw new Error(JSON.stringify(first));
  return one;
}
