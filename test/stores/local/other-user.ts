// A process of another user. That user may not be able to read the clone, so it runs a bundle.

import { spawn } from "node:child_process";
import { dirname, join } from "node:path";
import { bundledChildForAll } from "../../support/bundled-child.ts";
import { actor, Child, heard } from "./fixture.ts";

/** The user and group `nobody`. */
export const OTHER_USER = 65_534;

/** An actor of another user if this one is root, else one more of the same user. */
export async function otherUsersActor(dir: string): Promise<Child> {
  if (process.geteuid?.() !== 0) return actor(dir);
  const program = bundledChildForAll(join(import.meta.dirname, "children", "actor.ts"));
  const user = [`--reuid=${OTHER_USER}`, `--regid=${OTHER_USER}`, "--clear-groups"];
  const one = new Child(
    spawn("setpriv", [...user, process.execPath, program, dir], {
      stdio: ["pipe", "pipe", "inherit"],
      cwd: dirname(program),
    }),
  );
  const first = await heard(one);
  if (typeof first["ready"] !== "number") throw new Error(JSON.stringify(first));
  return one;
}
