// The largest fence of any key whose file was removed. A key that is met anew starts above it, so fences grow over
// clean-up even when the wall clock was set back (P3), and idle files need not be kept for long.
// It is raised before the file goes, under the latch of that file: whoever then makes the key anew reads it raised.

import { closeSync } from "node:fs";
import { fileError } from "./errors.ts";
import type { KernelLock } from "./kernel-lock.ts";
import { openExisting } from "./key-files.ts";
import { SlotFile } from "./slot-file.ts";

export class Floor {
  readonly #file: SlotFile;

  private constructor(file: SlotFile) {
    this.#file = file;
  }

  static open(path: string, kernel: KernelLock): Floor {
    try {
      const fd = openExisting(path);
      if (fd === null) throw Object.assign(new Error("missing"), { code: "ENOENT" });
      return new Floor(new SlotFile(path, fd, kernel));
    } catch (error) {
      throw fileError(error, "open", path);
    }
  }

  value(): number {
    return Number(this.#file.peek());
  }

  /** Whether the floor is at least so high now; false when another process is at it. */
  raise(to: number): boolean {
    if (!this.#file.tryLatch()) return false;
    try {
      if (!this.#file.linked) return false;
      if (Number(this.#file.read()) < to) this.#file.write(String(to));
      return true;
    } finally {
      this.#file.unlatch();
    }
  }

  close(): void {
    closeSync(this.#file.fd);
  }
}
