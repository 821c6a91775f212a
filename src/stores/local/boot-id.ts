// Names the current boot of this machine. Records contain times of the monotonic clock, which starts again at
// every boot, so each boot has its own folder. Containers on one kernel normally share the boot id.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { UnsupportedError } from "../../core/errors.ts";

const REGISTRY_KEY =
  "HKLM\\SYSTEM\\CurrentControlSet\\Control\\Session Manager\\Memory Management\\PrefetchParameters";

/** How to read the boot id of each platform. The macOS and Windows rows are untested on those systems. */
const SOURCES: Readonly<Partial<Record<NodeJS.Platform, () => string>>> = {
  linux: () => readFileSync("/proc/sys/kernel/random/boot_id", "latin1"),
  darwin: () => output("/usr/sbin/sysctl", ["-n", "kern.bootsessionuuid"]),
  win32: () => /0x[0-9a-f]+/i.exec(output("reg.exe", ["query", REGISTRY_KEY, "/v", "BootId"]))?.[0] ?? "",
};

export function readBootId(platform: NodeJS.Platform = process.platform): string {
  let cause: unknown;
  try {
    const id = SOURCES[platform]?.().trim() ?? "";
    if (id !== "") return id;
  } catch (error) {
    cause = error;
  }
  throw new UnsupportedError(
    `the local store needs the boot id of this machine and cannot read it on ${platform}. ` +
      "Use memory: within one process, or a store with a server",
    { cause },
  );
}

function output(program: string, args: readonly string[]): string {
  return execFileSync(program, args, { encoding: "latin1", stdio: ["ignore", "pipe", "ignore"] });
}
