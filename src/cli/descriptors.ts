// File descriptors of COMMAND. COMMAND gets those that the caller left open, as it would without holdfast:
// the job server of make, sockets of systemd, `3>log` of a shell. Node sets close-on-exec on them, so they
// are passed on by number. Descriptors that holdfast adds have numbers that the others do not use.

import { existsSync, fstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";

/** The number of the local store's lifeline in COMMAND. Shells, make and systemd use small numbers. */
export const LIFELINE_FD = 99;
/** A shell accepts single digits only. */
const GATE_FDS = [9, 8, 7, 6, 5, 4, 3] as const;
const FIRST_FD = 3;
const DIRECTORY = "/proc/self/fd";

let inherited: readonly number[] = [];

/**
 * Call it before holdfast opens anything. Nothing is found where there is no /proc.
 *
 * Node has opened descriptors of its own by then, each the lowest free number at that time. So every number
 * below Node's first one (an eventpoll) is the caller's. Above it, Node has eventpolls, eventfds, pipes and
 * /dev/null.
 */
export function recordInheritedFds(): void {
  const open = [...openDescriptors()];
  const firstOfNode = Math.min(...open.filter(([, link]) => isEventPoll(link)).map(([fd]) => fd));
  inherited = open.filter(([fd, link]) => fd < firstOfNode || !isKindOfNode(link)).map(([fd]) => fd);
}

/** Descriptors from 3 that the caller left open. */
export function inheritedFds(): readonly number[] {
  return inherited;
}

/**
 * Whether the caller has left `fd` open to be written to. A pipe of Node's own must never be written to: Node
 * has both of its ends open, the caller's pipe has its reader elsewhere. Without /proc they cannot be told
 * apart, so no pipe is accepted there.
 */
export function isForReport(fd: number): boolean {
  try {
    const stat = fstatSync(fd);
    if (existsSync(DIRECTORY) && isReadEnd(fd)) return false;
    if (!stat.isFIFO() || fd < FIRST_FD) return fd < FIRST_FD || stat.isFile() || stat.isCharacterDevice();
    const pipe = readlinkSync(`${DIRECTORY}/${fd}`);
    return ![...openDescriptors()].some(([other, link]) => link === pipe && isReadEnd(other));
  } catch {
    return false;
  }
}

const ACCESS_MODE = 0o3;

function isReadEnd(fd: number): boolean {
  const info = readFileSync(`/proc/self/fdinfo/${fd}`, "latin1");
  return (Number.parseInt(/^flags:\s*(\d+)$/m.exec(info)?.[1] ?? "0", 8) & ACCESS_MODE) === 0;
}

/** COMMAND does not get `fd`: its reader waits until every process has closed it. */
export function keepFromCommand(fd: number): void {
  inherited = inherited.filter((one) => one !== fd);
}

function* openDescriptors(): Iterable<readonly [fd: number, link: string]> {
  let names: readonly string[] = [];
  try {
    names = readdirSync(DIRECTORY);
  } catch {
    // Not Linux, or /proc is not mounted.
  }
  for (const fd of names.map(Number)) {
    if (fd < FIRST_FD || fd >= LIFELINE_FD) continue;
    try {
      yield [fd, readlinkSync(`${DIRECTORY}/${fd}`)];
    } catch {
      // The descriptor of the listing itself.
    }
  }
}

function isEventPoll(link: string): boolean {
  return link === "anon_inode:[eventpoll]";
}

function isKindOfNode(link: string): boolean {
  return link.startsWith("anon_inode:") || link.startsWith("pipe:") || link === "/dev/null";
}

/** A number that the caller does not use. If all are taken, COMMAND does not get the last one. */
export function gateFd(): number {
  return GATE_FDS.find((fd) => !inherited.includes(fd)) ?? (GATE_FDS.at(-1) as number);
}
