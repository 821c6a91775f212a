// Finds out whether the pipe of stdout still has a reader. A write fails without one, but `watch` may have
// nothing to write for hours, and `holdfast watch | head -1` would never end. On Linux, /proc shows which
// processes have the other end open. A reader of another user or container is invisible there.

import { readdirSync, readFileSync, readlinkSync } from "node:fs";

const STDOUT = 1;
/** The access mode in the flags of fdinfo, and its value for a descriptor that only writes. */
const ACCESS_MODE = 0o3;
const WRITE_ONLY = 0o1;

export class StdoutReader {
  readonly #pipe: string | null = pipeOf(STDOUT);
  #readers: readonly string[];

  constructor() {
    this.#readers = this.#search();
  }

  /** True once every reader that was seen has closed the pipe. */
  hasGone(): boolean {
    if (this.#readers.length === 0 || this.#readers.some((pid) => this.#reads(pid))) return false;
    this.#readers = this.#search();
    return this.#readers.length === 0;
  }

  #search(): readonly string[] {
    if (this.#pipe === null) return [];
    const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
    return pids.filter((pid) => pid !== String(process.pid) && this.#reads(pid));
  }

  #reads(pid: string): boolean {
    try {
      return readdirSync(`/proc/${pid}/fd`).some((fd) => this.#isReadEnd(pid, fd));
    } catch {
      return false;
    }
  }

  #isReadEnd(pid: string, fd: string): boolean {
    try {
      if (readlinkSync(`/proc/${pid}/fd/${fd}`) !== this.#pipe) return false;
      const info = readFileSync(`/proc/${pid}/fdinfo/${fd}`, "latin1");
      const flags = Number.parseInt(/^flags:\s*(\d+)$/m.exec(info)?.[1] ?? "0", 8);
      return (flags & ACCESS_MODE) !== WRITE_ONLY;
    } catch {
      return false;
    }
  }
}

/** The name of the pipe behind a descriptor; null where it is no pipe, or there is no /proc. */
function pipeOf(fd: number): string | null {
  try {
    const link = readlinkSync(`/proc/self/fd/${fd}`);
    return link.startsWith("pipe:") ? link : null;
  } catch {
    return null;
  }
}
