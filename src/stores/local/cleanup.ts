// Removes what dead processes and earlier boots left behind, a bounded number per opened store. It removes
// only what is certainly of no use, and reports no failure: what stays is found by the next process.

import { closeSync, constants, openSync, readdirSync, rmdirSync, statSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import type { System } from "../../core/system.ts";
import { bootOf, FOLDER_NAME, type Folder, isProcessName } from "./folder.ts";
import { PeerSockets } from "./peer-sockets.ts";
import type { Log } from "./log.ts";
import type { Session } from "./session.ts";

/** More than one per opened store, so that dead sockets become fewer than they are made. */
const SOCKETS_PER_VISIT = 32;
/** To make a folder or a socket takes a millisecond. Older drafts were left by a process that died. */
const OLD_DRAFT_MS = 60_000;
const DRAFT_FOLDER = /^\.(new|old)-[0-9a-f]+$/;

export async function cleanUp(session: Session, system: System): Promise<void> {
  await removeDeadSockets(session, system);
  await removeOtherBoots(session.folder, system);
}

/**
 * The name of a dead socket is the proof of its process's death, so it stays while a record names the
 * process. The order matters: a process that is dead appends nothing, so a log that is read afterwards shows
 * all that it wrote.
 */
async function removeDeadSockets({ folder, peers, log, name }: Session, system: System): Promise<void> {
  const files = readdirSync(folder.base);
  for (const file of files.filter((one) => one.startsWith(".") && isProcessName(one.slice(1)))) {
    if (isOld(folder.join(file), system)) quietly(() => unlinkSync(folder.join(file)));
  }
  const others = files.filter((file) => isProcessName(file) && file !== name);
  const start = Math.floor(system.random() * others.length);
  const chosen = [...others.slice(start), ...others.slice(0, start)].slice(0, SOCKETS_PER_VISIT);
  if (!(await peers.ask(chosen))) return;
  log.refresh();
  const named = processesInRecords(log);
  for (const one of chosen) {
    if (!peers.isAlive(one) && !named.has(one)) quietly(() => unlinkSync(folder.join(one)));
  }
}

/** Names of all processes that hold or wait according to the log. */
export function processesInRecords(log: Log): Set<string> {
  const names = new Set<string>();
  for (const [, { text }] of log.entries()) {
    for (const [, name] of text.matchAll(/"proc":"([0-9a-f]+)"/g)) names.add(name as string);
  }
  return names;
}

/** A container may have another boot id on the same kernel: a folder whose processes live stays. */
async function removeOtherBoots(folder: Folder, system: System): Promise<void> {
  const around = join(folder.base, "..");
  for (const name of readdirSync(around)) {
    const path = join(around, name);
    const isOtherBoot = FOLDER_NAME.test(name) && bootOf(name) !== bootOf(folder.name);
    const isDraft = DRAFT_FOLDER.test(name) && isOld(path, system);
    if (!isOtherBoot && !isDraft) continue;
    await inDirectory(path, async (base) => {
      if (!(await hasLiveSocket(base))) removeFolder(base, path);
    });
  }
}

/** Names of folders of other boots in which a process lives now. */
export async function otherBootsInUse(folder: Folder): Promise<string[]> {
  const around = join(folder.base, "..");
  const inUse: string[] = [];
  for (const name of readdirSync(around)) {
    if (!FOLDER_NAME.test(name) || bootOf(name) === bootOf(folder.name)) continue;
    await inDirectory(join(around, name), async (base) => {
      if (await hasLiveSocket(base)) inUse.push(name);
    });
  }
  return inUse;
}

async function hasLiveSocket(base: string): Promise<boolean> {
  const names = readdirSync(base).filter(isProcessName);
  const peers = new PeerSockets({ address: (name) => join(base, name) }, () => {});
  try {
    await peers.ask(names);
    return names.some((name) => peers.isAlive(name));
  } finally {
    await peers.close();
  }
}

/** Only files: a folder of ours has no folders in it. */
function removeFolder(base: string, path: string): void {
  for (const file of readdirSync(base)) quietly(() => unlinkSync(join(base, file)));
  quietly(() => rmdirSync(path));
}

/** Reaches the directory through a descriptor, so that nobody can replace it by a link meanwhile. */
async function inDirectory(path: string, work: (base: string) => Promise<void>): Promise<void> {
  if (process.platform !== "linux") return work(path);
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  } catch {
    // Gone, a link, or not ours to read.
    return;
  }
  try {
    await work(`/proc/self/fd/${fd}`);
  } finally {
    closeSync(fd);
  }
}

function isOld(path: string, system: System): boolean {
  const stats = statSync(path, { throwIfNoEntry: false });
  return stats !== undefined && system.wallMs() - stats.mtimeMs > OLD_DRAFT_MS;
}

function quietly(remove: () => void): void {
  try {
    remove();
  } catch {
    // Another process was faster, or it is not ours to remove.
  }
}
