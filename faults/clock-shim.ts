// The library that moves the calendar of one client process: compiled when it is first needed, kept in the project's own
// scratch folder, and proved on a child process before a run relies on it. Without a C compiler it fails by name.

import { execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

const SOURCE: string = join(import.meta.dirname, "clock-shim.c");
const CACHE: string = join(import.meta.dirname, "..", ".tmp");
const PROOF_JUMP_MS = 7_200_000;
const PROOF_BLUR_MS = 2_000;

/** How far the calendar of one process is off. The process sees a change at once. */
export class Offset {
  readonly path: string;
  readonly #file: number;

  constructor(path: string) {
    this.path = path;
    this.#file = openSync(path, "w");
    this.set(0);
  }

  set(ms: number): void {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(Math.round(ms)) * 1_000_000n);
    writeSync(this.#file, bytes, 0, 8, 0);
  }

  close(): void {
    closeSync(this.#file);
  }
}

export class ClockShim {
  readonly #library: string;

  private constructor(library: string) {
    this.#library = library;
  }

  static async build(compiler: string = process.env["CC"] ?? "cc"): Promise<ClockShim> {
    const hash = createHash("sha256").update(readFileSync(SOURCE)).digest("hex").slice(0, 12);
    const library = join(CACHE, `clock-shim-${process.arch}-${hash}.so`);
    if (existsSync(library)) return new ClockShim(library);
    mkdirSync(CACHE, { recursive: true });
    const draft = `${library}.${process.pid}`;
    try {
      await promisify(execFile)(compiler, [
        "-shared",
        "-fPIC",
        "-O2",
        "-Wall",
        "-Werror",
        "-o",
        draft,
        SOURCE,
      ]);
    } catch (error) {
      const advice = "this fault needs a C compiler: install one (package gcc) or name it in CC";
      throw new Error(`the clock shim could not be compiled with ${compiler}: ${advice}`, { cause: error });
    }
    renameSync(draft, library);
    return new ClockShim(library);
  }

  environment(offset: Offset): NodeJS.ProcessEnv {
    return { LD_PRELOAD: this.#library, HOLDFAST_CLOCK_OFFSET: offset.path };
  }

  /** Throws unless the calendar of a child moves with the offset, both ways, and its monotonic clock does not. */
  async prove(path: string): Promise<void> {
    const offset = new Offset(path);
    const program = `process.stdin.on("data", () =>
      console.log(JSON.stringify([Date.now(), Number(process.hrtime.bigint() / 1000000n), performance.now()])))`;
    const env = { ...process.env, ...this.environment(offset) };
    const child = spawn(process.execPath, ["-e", program], { env, stdio: ["pipe", "pipe", "inherit"] });
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const ask = async (): Promise<[number, number, number]> => {
      child.stdin.write("\n");
      return JSON.parse((await lines.next()).value as string) as [number, number, number];
    };
    try {
      const before = await ask();
      for (const jumpMs of [PROOF_JUMP_MS, -PROOF_JUMP_MS]) {
        offset.set(jumpMs);
        const now = await ask();
        const [wall, mono, perf] = now.map((ms, i) => ms - (before[i] as number)) as [number, number, number];
        if (Math.abs(wall - jumpMs) < PROOF_BLUR_MS && mono < PROOF_BLUR_MS && perf < PROOF_BLUR_MS) continue;
        throw new Error(
          `the clock shim does not work here: wall ${wall}, monotonic ${mono}, performance ${perf} ms`,
        );
      }
    } finally {
      child.kill("SIGKILL");
      offset.close();
    }
  }
}
