// Reads /proc to find the processes that COMMAND has started. Elsewhere than on Linux the lists are null, and
// callers use process groups.

import { readdirSync, readFileSync } from "node:fs";

export interface ProcessInfo {
  readonly pid: number;
  readonly name: string;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
}

/** Every process but zombies. */
export function livingProcesses(): readonly ProcessInfo[] | null {
  try {
    return readdirSync("/proc")
      .map(Number)
      .filter((pid) => pid > 0)
      .flatMap((pid) => readProcess(pid) ?? []);
  } catch {
    return null;
  }
}

export function readProcess(pid: number | "self"): ProcessInfo | null {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch {
    return null;
  }
  // The name is in parentheses and may contain any character.
  const [state = "", ...numbers] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  if (state === "Z" || state === "X") return null;
  const [parent = 0, group = 0, session = 0] = numbers.slice(0, 3).map(Number);
  const name = stat.slice(stat.indexOf("(") + 1, stat.lastIndexOf(")"));
  return { pid: Number.parseInt(stat, 10), name, parent, group, session };
}

/**
 * What `root` has started in this session: its descendants, and those whose parent has ended, who still have
 * `mark` in the environment that they were started with. `root` is among them while it lives.
 */
export function findDescendants(root: number, mark: string): readonly ProcessInfo[] | null {
  const all = livingProcesses();
  const session = readProcess("self")?.session;
  if (all === null || session === undefined) return null;
  const parents = new Map(all.map(({ pid, parent }) => [pid, parent]));
  return all.filter(
    (one) =>
      one.session === session &&
      one.pid !== process.pid &&
      (descends(one.pid, root, parents) || hasMark(one.pid, mark)),
  );
}

function descends(pid: number, root: number, parents: ReadonlyMap<number, number>): boolean {
  // Parents may change while they are read, so the chain is followed only so far.
  let at: number | undefined = pid;
  for (let step = 0; at !== undefined && step <= parents.size; step += 1) {
    if (at === root) return true;
    at = parents.get(at);
  }
  return false;
}

function hasMark(pid: number, mark: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, "latin1").includes(mark);
  } catch {
    return false;
  }
}
