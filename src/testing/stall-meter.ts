// Measures for how long the machine did not run its processes, so that a time bound also holds on a busy
// machine. The larger of two values counts:
// 1. Linux counts the time in which some task waited for a processor, a disk or memory: /proc/pressure.
//    https://docs.kernel.org/accounting/psi.html
// 2. A thread of this process sleeps for short times and adds up how late it wakes. It also sees a
//    machine that stood still.

import { readFileSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { nodeSystem } from "../system/node.ts";

const RESOURCES = ["cpu", "io", "memory"];

const SAMPLER = `
const { workerData } = require("node:worker_threads");
const total = new Float64Array(workerData);
const [STEP_MS, USUAL_MS] = [20, 5];
let dueMs = performance.now() + STEP_MS;
setInterval(() => {
  const nowMs = performance.now();
  if (nowMs - dueMs > USUAL_MS) total[0] += nowMs - dueMs;
  dueMs = nowMs + STEP_MS;
}, STEP_MS);
`;

let lateMs: Float64Array | null = null;

function startSampler(): Float64Array {
  const shared = new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT);
  new Worker(SAMPLER, { eval: true, workerData: shared, stdout: false }).unref();
  return new Float64Array(shared);
}

/**
 * Microseconds since boot in which some task waited for the resource; 0 where the kernel does not count
 * them.
 */
function pressureUs(resource: string): number {
  try {
    const text = readFileSync(`/proc/pressure/${resource}`, "utf8");
    return Number(/^some .*total=(\d+)/m.exec(text)?.[1] ?? 0);
  } catch {
    return 0;
  }
}

function pressureMs(): number {
  return RESOURCES.reduce((sum, resource) => sum + pressureUs(resource), 0) / 1_000;
}

/** How many callers ignore stalls. */
let ignoring = 0;

/** For tests of the checks themselves: a planted mistake must be seen on a busy machine too. */
export function ignoreStalls(ignore: boolean): void {
  ignoring += ignore ? 1 : -1;
}

export class StallMeter {
  readonly #startedAtMs: number = nodeSystem.monoMs();
  readonly #pressureMs: number = pressureMs();
  readonly #sampler: Float64Array;
  readonly #lateMs: number;

  constructor() {
    lateMs ??= startSampler();
    this.#sampler = lateMs;
    this.#lateMs = lateMs[0] ?? 0;
  }

  /** How long the machine stalled since the meter was made; never more than the time that has passed. */
  stalledMs(): number {
    if (ignoring > 0) return 0;
    const pressure = pressureMs() - this.#pressureMs;
    const late = (this.#sampler[0] ?? 0) - this.#lateMs;
    return Math.min(Math.max(pressure, late), nodeSystem.monoMs() - this.#startedAtMs);
  }

  /** The time since the meter was made, without the time in which the machine stalled. */
  workingMs(): number {
    return nodeSystem.monoMs() - this.#startedAtMs - this.stalledMs();
  }
}
