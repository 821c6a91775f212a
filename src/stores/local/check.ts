// Whether this directory is a safe place to lock in, and who meets here: what `doctor` prints.

import { readFileSync, readlinkSync } from "node:fs";
import type { Finding } from "../../core/store.ts";
import { bootInUse, otherBoots } from "./boots.ts";
import { remoteFileSystem } from "./file-systems.ts";
import type { KernelLock } from "./kernel-lock.ts";
import type { Place } from "./place.ts";

/** The kernel's fixed number for the first pid namespace. */
const FIRST_PID_NAMESPACE = "pid:[4026531836]";

export function findings(place: Place, kernel: KernelLock): readonly Finding[] {
  return [remote, writableByAll, privateTmp, pidNamespace, foreignBoot].flatMap(
    (look) => look(place, kernel) ?? [],
  );
}

function remote(place: Place): Finding | null {
  const name = remoteFileSystem(place.root.path);
  if (name === null) return null;
  return {
    id: "network-file-system",
    level: "danger",
    what: `${place.root.path} is on ${name}, which other machines may share`,
    why: "processes on two machines do not meet here: each machine has a folder, a clock and locks of its own",
    fix: "name a directory on a local disk, or use a store that is made for several machines",
  };
}

function writableByAll(place: Place): Finding | null {
  if ((place.root.stats.mode & 0o002) === 0) return null;
  return {
    id: "world-writable",
    level: "warning",
    what: `every user of this machine may write to ${place.root.path}`,
    why: "whoever may write there can take, keep or free any lock in it",
    fix: `share it with a group instead: chgrp GROUP ${place.root.path} && chmod 2770 ${place.root.path}`,
  };
}

function privateTmp(place: Place): Finding | null {
  const mounts = read("/proc/self/mountinfo");
  const own = /^\d+ \d+ \S+ (\S*systemd-private-\S*) \/tmp /m.exec(mounts);
  if (own === null || !place.root.path.startsWith("/tmp/")) return null;
  return {
    id: "private-tmp",
    level: "info",
    what: "this service has a /tmp of its own (PrivateTmp=)",
    why: "it does not meet processes outside of the service in a directory under /tmp",
    fix: "name a directory elsewhere for all of them, for example local:/var/lib/NAME/locks, or set PrivateTmp=no",
  };
}

function pidNamespace(place: Place): Finding | null {
  let own: string;
  try {
    own = readlinkSync("/proc/self/ns/pid");
  } catch {
    return null;
  }
  if (own === FIRST_PID_NAMESPACE) return null;
  return {
    id: "container",
    level: "info",
    what: "this process runs in a container (a pid namespace of its own)",
    why: `it meets only processes that see the same ${place.root.path}; process numbers in messages are the container's`,
    fix: "mount one directory into all containers that must meet, and name it: local:/some/dir",
  };
}

function foreignBoot(place: Place, kernel: KernelLock): Finding | null {
  const live = otherBoots(place).filter((name) => bootInUse(place, name, kernel));
  if (live.length === 0) return null;
  return {
    id: "several-boot-ids",
    level: "danger",
    what: `processes with another boot id (${live.join(", ")}) use ${place.root.path} at this moment`,
    why: "a container manager gave them a boot id of their own, so they do not meet the processes of this one",
    fix: "run all of them under one boot id, or use a store that is made for several machines",
  };
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
