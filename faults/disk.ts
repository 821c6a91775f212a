// A disk that fills up and is freed again at a word from here, for the servers that are started with its environment. It is a library in
// front of their C library, proved on a child process before a run relies on it; other processes never notice. Programs that
// call the kernel themselves, as those in Go do, cannot be harmed so.

import { execFile } from "node:child_process";
import {
  chmodSync,
  closeSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readSync,
  realpathSync,
  rmSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { preloadLibrary } from "./preload.ts";

/** As in disk-shim.c. */
const SIZE = 4_096;
const FULL_AT = 8;
const FREED_AT = 16;
const FOLDER_AT = 24;

export class Disk {
  readonly #home: string;
  readonly #file: number;
  readonly environment: Readonly<Record<string, string>>;

  private constructor(home: string, library: string, control: string) {
    this.#home = home;
    this.#file = openSync(control, "w+");
    writeSync(this.#file, Buffer.alloc(SIZE), 0, SIZE, 0);
    this.environment = { LD_PRELOAD: library, HOLDFAST_DISK: control };
  }

  /** With room. In a folder of its own, because a server may run as a user who cannot enter that of the run. */
  static async open(): Promise<Disk> {
    const built = await preloadLibrary("disk-shim");
    const home = mkdtempSync(join(tmpdir(), "holdfast-disk-"));
    const [library, control] = [join(home, "disk-shim.so"), join(home, "control")];
    copyFileSync(built, library);
    const disk = new Disk(home, library, control);
    chmodSync(home, 0o755);
    chmodSync(control, 0o666);
    try {
      await disk.#prove();
    } catch (error) {
      disk.close();
      throw error;
    }
    return disk;
  }

  /** From now on files below the folder can grow only by what is removed there. */
  fill(folder: string): void {
    this.free();
    const path = Buffer.alloc(SIZE - FOLDER_AT);
    path.write(realpathSync(folder));
    writeSync(this.#file, path, 0, path.length, FOLDER_AT);
    writeSync(this.#file, Buffer.alloc(8), 0, 8, FREED_AT);
    writeSync(this.#file, Buffer.of(1), 0, 1, FULL_AT);
  }

  free(): void {
    writeSync(this.#file, Buffer.of(0), 0, 1, FULL_AT);
  }

  /** How often somebody was told that there is no room. */
  get answers(): number {
    const bytes = Buffer.alloc(8);
    readSync(this.#file, bytes, 0, 8, 0);
    return Number(bytes.readBigUInt64LE());
  }

  close(): void {
    closeSync(this.#file);
    rmSync(this.#home, { recursive: true, force: true });
  }

  /** Throws unless every way to make a file grow is refused to a child below the folder while it is full, and nothing else is. */
  async #prove(): Promise<void> {
    const [full, other] = [join(this.#home, "full"), join(this.#home, "other")];
    for (const folder of [full, other]) mkdirSync(folder);
    const told = async (): Promise<string> => {
      const env = { ...process.env, ...this.environment };
      return (await promisify(execFile)(process.execPath, ["-e", PROOF, full, other], { env })).stdout.trim();
    };
    const seen = [await told()];
    this.fill(full);
    seen.push(await told());
    const { answers } = this;
    this.free();
    seen.push(await told());
    const wanted = [
      "write pwrite writev pwritev ftruncate append over shrink other",
      "over shrink other",
      "write pwrite writev pwritev ftruncate append over shrink other",
    ];
    if (seen.join("; ") === wanted.join("; ") && answers > 0 && answers === this.answers) return;
    throw new Error(`the disk shim does not work here: ${answers} answers, a child could ${seen.join("; ")}`);
  }
}

/** Says what it could do. What is below a full folder was made when there was room. */
const PROOF = `
const fs = require("node:fs");
const [full, other] = process.argv.slice(1);
const path = full + "/file", bytes = Buffer.from("0123456789");
if (!fs.existsSync(path)) fs.writeFileSync(path, bytes);
const file = fs.openSync(path, "r+"), append = fs.openSync(path, "a");
const size = fs.fstatSync(file).size;
const could = [];
const attempt = (name, act) => {
  try { act(); could.push(name); } catch (error) { if (error.code !== "ENOSPC") throw error; }
};
attempt("write", () => { fs.readSync(file, Buffer.alloc(size)); fs.writeSync(file, bytes); });
attempt("pwrite", () => fs.writeSync(file, bytes, 0, 10, fs.fstatSync(file).size));
attempt("writev", () => fs.writevSync(append, [bytes, bytes]));
attempt("pwritev", () => fs.writevSync(file, [bytes, bytes], fs.fstatSync(file).size));
attempt("ftruncate", () => fs.ftruncateSync(file, fs.fstatSync(file).size + 1));
attempt("append", () => fs.writeSync(append, bytes));
attempt("over", () => fs.writeSync(file, bytes, 0, 10, 0));
attempt("shrink", () => fs.ftruncateSync(append, 10));
attempt("other", () => fs.appendFileSync(other + "/file", bytes));
console.log(could.join(" "));
`;
