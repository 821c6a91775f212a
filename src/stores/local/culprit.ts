// Who is inside a latch. Looked for only when a call is about to fail: it reads all of /proc.
// Never blocks the event loop for long, and never throws: not knowing is an answer.

import { type Stats, statSync } from "node:fs";
import { readdir, readFile, stat } from "node:fs/promises";

/** "process 123 (node, stopped)", or null when nobody can be seen. */
export async function culprit(path: string): Promise<string | null> {
  const file = statSync(path, { throwIfNoEntry: false });
  if (file === undefined) return null;
  for (const pid of await names("/proc")) {
    if (/^\d+$/.test(pid) && (await latches(pid, file))) return describe(pid);
  }
  return null;
}

async function latches(pid: string, file: Stats): Promise<boolean> {
  const lock = new RegExp(`^lock:.*OFDLCK.*WRITE.*:${file.ino} 0 0$`, "m");
  for (const fd of await names(`/proc/${pid}/fdinfo`)) {
    const info = await readFile(`/proc/${pid}/fdinfo/${fd}`, "latin1").catch(() => "");
    if (!lock.test(info)) continue;
    // Inode numbers repeat over file systems.
    const target = await stat(`/proc/${pid}/fd/${fd}`).catch(() => null);
    if (target?.dev === file.dev) return true;
  }
  return false;
}

async function describe(pid: string): Promise<string> {
  const line = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  const match = /\((.*)\) (\S)/s.exec(line);
  if (match === null) return `process ${pid}`;
  const stopped = match[2] === "T" || match[2] === "t";
  return `process ${pid} (${match[1]}${stopped ? ", stopped" : ""})`;
}

function names(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => []);
}
