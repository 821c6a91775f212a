// Findings for `doctor`: whether the directory is safe for locks, and which processes share it.

import { realpathSync } from "node:fs";
import { showKey } from "../../core/key.ts";
import type { Finding } from "../../core/store.ts";
import { checkAppend } from "./append-check.ts";
import { otherBootsInUse } from "./cleanup.ts";
import { damagedKeys } from "./inspect.ts";
import { isLayer, mountOf } from "./file-systems.ts";
import type { LockDirectory } from "./lock-directory.ts";
import { isContainer, type Machine, thisMachine } from "./machine.ts";
import type { Session } from "./session.ts";

/** `isDefault`: the caller did not name a directory. */
export async function findings(session: Session, isDefault: boolean): Promise<readonly Finding[]> {
  const { directory } = session;
  return [
    ...environmentFindings(realpathSync(directory.path), thisMachine(), isDefault),
    ...worldWritable(directory),
    ...damagedRecords(session),
    ...(directory.isReadOnly ? readOnly(directory) : await appendNotAtomic(session)),
    ...(await severalBoots(session)),
  ];
}

/** Findings about the location of the directory. `path` has no symbolic links. */
export function environmentFindings(path: string, machine: Machine, isDefault = false): readonly Finding[] {
  return [
    ...privateTmp(path, machine),
    ...container(path, machine, isDefault),
    ...(isDefault && machine.isRoot ? [defaultOfRoot(path)] : []),
  ];
}

/** Root uses its default directory, which processes of other users do not use. */
function defaultOfRoot(path: string): Finding {
  return {
    id: "default-as-root",
    level: "warning",
    what: `this process is root and uses the default directory of root, ${path}`,
    why: "other users and other machines do not see the locks there: each could hold the same key",
    fix: "name the store: local:/some/dir for this machine, or a store with a server for several",
  };
}

function worldWritable({ path, stats }: LockDirectory): Finding[] {
  if ((stats.mode & 0o002) === 0 || process.platform === "win32") return [];
  return [
    {
      id: "world-writable",
      level: "warning",
      what: `every user of this machine may write to ${path}`,
      why: "every user can take, keep or free any lock in it",
      fix: `share it with a group instead: chgrp GROUP ${path} && chmod 2770 ${path}`,
    },
  ];
}

function damagedRecords(session: Session): Finding[] {
  const keys = damagedKeys(session);
  if (keys.length === 0) return [];
  const shown = keys.slice(0, 3).map(showKey).join(", ");
  return [
    {
      id: "damaged-records",
      level: "danger",
      what: `the records of ${keys.length} keys in ${session.folder.path} are damaged: ${shown}`,
      why: "the holders of these keys are unknown, so nobody can take them; list and ls omit them",
      fix: `stop every process that uses this directory, then delete ${session.folder.path}`,
    },
  ];
}

function readOnly({ path, stats }: LockDirectory): Finding[] {
  return [
    {
      id: "read-only",
      level: "info",
      what: `${path} belongs to user ${stats.uid}, so root reads it and writes nothing there`,
      why: "its owner could replace a file by a link and make root write somewhere else",
      fix: `to take or revoke a lock there, run the command as that user: setpriv --reuid=${stats.uid} ...`,
    },
  ];
}

async function appendNotAtomic(session: Session): Promise<Finding[]> {
  const { isAtomic, what } = await checkAppend(session.folder, session.name);
  if (isAtomic) return [];
  return [
    {
      id: "append-not-atomic",
      level: "danger",
      what: `the file system of ${session.directory.path} loses appended lines: ${what}`,
      why: "two processes that take a key at the same time can both believe that they hold it",
      fix: "name a directory on another local file system, or use a store with a server",
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
      what: `this service has its own ${mount.point} (PrivateTmp=)`,
      why: `it shares no locks with processes outside of the service in a directory under ${mount.point}`,
      fix: "name a directory elsewhere for all of them, such as local:/var/lib/NAME/locks",
    },
  ];
}

/** In a container, a default directory is a warning, because the caller has not chosen it. */
function container(path: string, machine: Machine, isDefault: boolean): Finding[] {
  if (!isContainer(machine)) return [];
  const mount = mountOf(machine.mounts, path);
  const isAlone = mount !== null && isLayer(mount);
  return [
    {
      id: "container",
      level: isDefault ? "warning" : "info",
      what: isAlone
        ? `this process runs in a container, and ${path} is part of that container (${mount.type})`
        : "this process runs in a container",
      why: isAlone
        ? "no other container and no process of the host sees the locks there: each could hold the same key"
        : `it shares locks only with processes that see the same ${path}`,
      fix: "mount one directory of the host into all of these containers, and name it: local:/some/dir",
    },
  ];
}

async function severalBoots({ folder, directory }: Session): Promise<Finding[]> {
  const live = await otherBootsInUse(folder);
  if (live.length === 0) return [];
  return [
    {
      id: "several-boot-ids",
      level: "danger",
      what: `processes with another boot id use ${directory.path} now (${live.join(", ")})`,
      why: "a container manager gave them their own boot id, so they share no locks with other processes",
      fix: "run all of them under one boot id, or use a store that is made for several machines",
    },
  ];
}
