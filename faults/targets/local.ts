// The local store in a directory of the run. It has no server: the kernel cannot be killed from here.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { localGuarantees } from "../../src/stores/local/index.ts";
import type { Target } from "./target.ts";

export function localTarget(folder: string): Promise<Target> {
  const dir = join(folder, "store");
  mkdirSync(dir);
  const stop = (): Promise<void> => Promise.resolve();
  return Promise.resolve({ url: `local:${dir}`, guarantees: localGuarantees, servers: [], stop });
}
