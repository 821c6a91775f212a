// What this machine is, where that decides which processes share the local store: a whole machine or a
// container.

import { existsSync, readlinkSync } from "node:fs";
import { isLayer, mountOf, readMounts } from "./file-systems.ts";

/** What the kernel and a container's manager tell of this machine. Tests have machines of their own. */
export interface Machine {
  /** /proc/self/mountinfo */
  readonly mounts: string;
  /** /proc/self/ns/pid; "" where it cannot be read. */
  readonly pidNamespace: string;
  /** A container's manager left its file. An image that was booted as a virtual machine has it too. */
  readonly isMarked: boolean;
}

/** The kernel's fixed number for the first pid namespace. */
const FIRST_PID_NAMESPACE = "pid:[4026531836]";
const MARKS = ["/.dockerenv", "/run/.containerenv"];

export function thisMachine(): Machine {
  let pidNamespace = "";
  try {
    pidNamespace = readlinkSync("/proc/self/ns/pid");
  } catch {
    // Hidden from this process, or not Linux.
  }
  return { mounts: readMounts(), pidNamespace, isMarked: MARKS.some((path) => existsSync(path)) };
}

/** A container may share the pid namespace of its host. It does not share the root file system. */
export function isContainer({ mounts, pidNamespace, isMarked }: Machine): boolean {
  const base = mountOf(mounts, "/");
  const isApart = pidNamespace !== "" && pidNamespace !== FIRST_PID_NAMESPACE;
  return isApart || (isMarked && base !== null && isLayer(base));
}
