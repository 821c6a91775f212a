// Tasks of one process that fight for one key of any store by URL: sections served per task and the longest wait.

import { createLocks } from "holdfast";
import { monoMs, report, settings, startingShot } from "../lib/worker.ts";

interface Settings {
  readonly url: string;
  readonly tasks: number;
  readonly sectionMs: number;
  readonly seconds: number;
  readonly handoff?: number;
}

export interface HotUrlResult {
  readonly served: readonly number[];
  readonly longestWaitMs: number;
  /** Every grant, also those after the time was over. */
  readonly grants: number;
}

const { url, tasks, sectionMs, seconds, handoff } = settings<Settings>();
const locks = createLocks(url, handoff === undefined ? {} : { handoff });
const work =
  sectionMs === 0 ? async () => {} : () => new Promise<void>((resolve) => setTimeout(resolve, sectionMs));
const served = Array.from({ length: tasks }, () => 0);
let longestWaitMs = 0;
let grants = 0;

// Connected before the shot.
await locks.using("warm", () => {});
await startingShot();
const endMs = monoMs() + seconds * 1_000;

async function task(i: number): Promise<void> {
  while (monoMs() < endMs) {
    const askedMs = monoMs();
    await locks.using("hot", { wait: Number.POSITIVE_INFINITY }, () => {
      const nowMs = monoMs();
      grants += 1;
      if (nowMs - askedMs > longestWaitMs) longestWaitMs = nowMs - askedMs;
      if (nowMs < endMs) served[i] = (served[i] as number) + 1;
      return work();
    });
  }
}

await Promise.all(served.map((_, i) => task(i)));
await locks.close();
report({ served, longestWaitMs, grants } satisfies HotUrlResult);
