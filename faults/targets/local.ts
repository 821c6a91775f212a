// The local store in a directory of the run. It has no server: the kernel cannot be killed from here. The clients write its files
// themselves, so that a full disk is theirs.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { localGuarantees } from "../../src/stores/local/index.ts";
import { Disk } from "../disk.ts";
import { FULL_DISK, fullDisk } from "./full-disk.ts";
import type { Target } from "./target.ts";

export async function localTarget(folder: string, fault: string): Promise<Target> {
  const dir = join(folder, "store");
  mkdirSync(dir);
  const disk = fault === FULL_DISK ? await Disk.open() : null;
  return {
    url: `local:${dir}`,
    guarantees: localGuarantees,
    servers: [],
    ...(disk === null ? {} : { environment: disk.environment }),
    tricks: { [FULL_DISK]: fullDisk(disk, [{ folder: dir }]) },
    stop: () => Promise.resolve(disk?.close()),
  };
}
