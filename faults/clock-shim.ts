// The library that moves the calendar of one process, and the proof on a child process that it does, before a run relies on it.

import { spawn } from "node:child_process";
import { closeSync, openSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { preloadLibrary } from "./preload.ts";

const NS_PER_MS = 1e6;
/** What chrony slews a clock by at most, unless it is told otherwise. */
export const CHRONY_SLEW = 0.083_333;
const SLEW_EVERY_MS = 2;
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
    bytes.writeBigInt64LE(BigInt(Math.round(ms * NS_PER_MS)));
    writeSync(this.#file, bytes, 0, 8, 0);
  }

  close(): void {
    closeSync(this.#file);
  }
}

/** A calendar that runs faster (rate above 0) or slower than time, until it is stopped. */
export class Slew {
  readonly #timer: NodeJS.Timeout;
  #offsetMs = 0;
  #atMs: number = performance.now();

  constructor(set: (offsetMs: number) => void, rate: () => number) {
    this.#timer = setInterval(() => {
      const nowMs = performance.now();
      this.#offsetMs += (nowMs - this.#atMs) * rate();
      this.#atMs = nowMs;
      set(this.#offsetMs);
    }, SLEW_EVERY_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

export class ClockShim {
  readonly #library: string;

  private constructor(library: string) {
    this.#library = library;
  }

  static async build(): Promise<ClockShim> {
    return new ClockShim(await preloadLibrary("clock-shim"));
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
