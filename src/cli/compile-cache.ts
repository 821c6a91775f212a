// V8's compiled code, kept between runs by Node 22.1 and later. The folder belongs to this user: Node's own
// default is in the shared temporary folder, where another user could put code for root to run.

import { mkdirSync, statSync } from "node:fs";
import * as nodeModule from "node:module";
import { homedir } from "node:os";
import { join } from "node:path";

const WRITABLE_BY_OTHERS = 0o022;

/** Does nothing where the cache does not exist, or where NODE_COMPILE_CACHE has named one. */
export function useCompileCache(): void {
  const { enableCompileCache } = nodeModule as {
    readonly enableCompileCache?: (directory: string) => unknown;
  };
  const userId = process.geteuid?.();
  if (enableCompileCache === undefined || userId === undefined) return;
  try {
    const { XDG_CACHE_HOME: named } = process.env;
    const caches = named === undefined || named === "" ? join(homedir(), ".cache") : named;
    if (!isOwn(caches, userId)) return;
    const folder = join(caches, "holdfast", "compile");
    mkdirSync(folder, { mode: 0o700, recursive: true });
    if (isOwn(join(caches, "holdfast"), userId) && isOwn(folder, userId)) enableCompileCache(folder);
  } catch {
    // No home, or one that cannot be written to: the command starts a little slower.
  }
}

/** Under `sudo` the home may be that of another user. */
function isOwn(folder: string, userId: number): boolean {
  const { uid, mode } = statSync(folder);
  return uid === userId && (mode & WRITABLE_BY_OTHERS) === 0;
}
