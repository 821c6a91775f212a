// Detects containers, because processes in a container may not share the local store with other processes.

import { existsSync, readlinkSync } from "node:fs";
import { isLayer, mountOf, readMounts } from "./file-systems.ts";

/** What the kernel and the container manager report about this machine. Tests pass other values. */
export interface Machine {
  /** /proc/self/mountinfo */
  readonly mounts: string;
  /** /proc/self/ns/pid; "" where it cannot be read. */
  readonly pidNamespace: string;
  /** The file of a container manager exists. It also exists in an image that runs as a virtual machine. */
  readonly isMarked: boolean;
  readonly isRoot?: boolean;
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
  return {
    mounts: readMounts(),
    pidNamespace,
    isMarked: MARKS.some((path) => existsSync(path)),
    isRoot: process.getuid?.() === 0,
  };
}

/** A container may share the pid namespace of its host. It does not share the root file system. */
export function isContainer({ mounts, pidNamespace, isMarked }: Machine): boolean {
  const base = mountOf(mounts, "/");
  const isApart = pidNamespace !== "" && pidNamespace !== FIRST_PID_NAMESPACE;
  return isApart || (isMarked && base !== null && isLayer(base));
}
