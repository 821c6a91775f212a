// Whether this directory is a safe place to lock in, and who meets here: what `doctor` prints.

import { existsSync, readlinkSync, realpathSync } from "node:fs";
import type { Finding } from "../../core/store.ts";
import { bootInUse, otherBoots } from "./boots.ts";
import { isLayer, mountOf, readMounts, remoteFileSystem } from "./file-systems.ts";
import type { KernelLock } from "./kernel-lock.ts";
import type { Place } from "./place.ts";

/** What the kernel and a container's manager tell of this machine. Tests have machines of their own. */
export interface Machine {
  /** /proc/self/mountinfo */
  readonly mounts: string;
  /** /proc/self/ns/pid; "" where it cannot be read. */
  readonly pidNamespace: string;
  /** A file that a container's manager leaves. An image that was booted as a virtual machine has it too. */
  readonly marked: boolean;
}

/** The kernel's fixed number for the first pid namespace. */
const FIRST_PID_NAMESPACE = "pid:[4026531836]";
const MARKS = ["/.dockerenv", "/run/.containerenv"];

export function thisMachine(): Machine {
  let pidNamespace = "";
  try {
    pidNamespace = readlinkSync("/proc/self/ns/pid");
  } catch {
    // Hidden from this process.
  }
  return { mounts: readMounts(), pidNamespace, marked: MARKS.some((path) => existsSync(path)) };
}

export function findings(
  place: Place,
  kernel: KernelLock,
  machine: Machine = thisMachine(),
): readonly Finding[] {
  return [
    ...surroundings(realpathSync(place.root.path), machine),
    ...writableByAll(place),
    ...foreignBoot(place, kernel),
  ];
}

/** What follows from where the directory is. `path` has no links in it. */
export function surroundings(path: string, machine: Machine): readonly Finding[] {
  return [...remote(path, machine), ...privateTmp(path, machine), ...container(path, machine)];
}

function remote(path: string, { mounts }: Machine): Finding[] {
  const name = remoteFileSystem(path, mounts);
  if (name === null) return [];
  return [
    {
      id: "network-file-system",
      level: "danger",
      what: `${path} is on ${name}, which other machines may share`,
      why: "processes on two machines do not meet here: each machine has a folder, a clock and locks of its own",
      fix: "name a directory on a local disk, or use a store that is made for several machines",
    },
  ];
}

function writableByAll(place: Place): Finding[] {
  if ((place.root.stats.mode & 0o002) === 0) return [];
  return [
    {
      id: "world-writable",
      level: "warning",
      what: `every user of this machine may write to ${place.root.path}`,
      why: "whoever may write there can take, keep or free any lock in it",
      fix: `share it with a group instead: chgrp GROUP ${place.root.path} && chmod 2770 ${place.root.path}`,
    },
  ];
}

function privateTmp(path: string, { mounts }: Machine): Finding[] {
  const mount = mountOf(mounts, path);
  if (mount === null || !/\/systemd-private-[^/]+\/tmp$/.test(mount.root)) return [];
  return [
    {
      id: "private-tmp",
      level: "info",
      what: `this service has a ${mount.point} of its own (PrivateTmp=)`,
      why: `it does not meet processes outside of the service in a directory under ${mount.point}`,
      fix: "name a directory elsewhere for all of them, for example local:/var/lib/NAME/locks, or set PrivateTmp=no",
    },
  ];
}

function container(path: string, { mounts, pidNamespace, marked }: Machine): Finding[] {
  const base = mountOf(mounts, "/");
  const apart = pidNamespace !== "" && pidNamespace !== FIRST_PID_NAMESPACE;
  // A container may share the pid namespace of its host; its root file system it does not share.
  if (!apart && !(marked && base !== null && isLayer(base))) return [];
  const mount = mountOf(mounts, path);
  const alone = mount !== null && isLayer(mount);
  return [
    {
      id: "container",
      level: "info",
      what: alone
        ? `this process runs in a container, and ${path} is part of that container (${mount.type})`
        : "this process runs in a container",
      why: alone
        ? "no other container and no process of the host meets this one there: each would hold the same key"
        : `it meets only processes that see the same ${path}; process numbers in messages are the container's`,
      fix: "mount one directory of the host into all containers that must meet, and name it: local:/some/dir",
    },
  ];
}

function foreignBoot(place: Place, kernel: KernelLock): Finding[] {
  const live = otherBoots(place).filter((name) => bootInUse(place, name, kernel));
  if (live.length === 0) return [];
  return [
    {
      id: "several-boot-ids",
      level: "danger",
      what: `processes with another boot id (${live.join(", ")}) use ${place.root.path} at this moment`,
      why: "a container manager gave them a boot id of their own, so they do not meet the processes of this one",
      fix: "run all of them under one boot id, or use a store that is made for several machines",
    },
  ];
}
