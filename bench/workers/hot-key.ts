// Tasks of one process that fight for one key: sections served per task and the longest wait.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Mutex } from "async-mutex";
import lockfile from "proper-lockfile";
import { createLocks } from "holdfast";
import { monoMs, report, settings, startingShot } from "../lib/worker.ts";

interface Settings {
  readonly library: "holdfast" | "proper-lockfile" | "async-mutex";
  readonly dir: string;
  readonly tasks: number;
  readonly sectionMs: number;
  readonly seconds: number;
  readonly handoff?: number;
}

export interface HotKeyResult {
  readonly served: readonly number[];
  readonly longestWaitMs: number;
  readonly seconds: number;
}

type Section = (run: () => Promise<void>) => Promise<void>;
const { library, dir, tasks, sectionMs, seconds, handoff } = settings<Settings>();

function sections(): Section {
  if (library === "async-mutex") {
    const mutex = new Mutex();
    return (run) => mutex.runExclusive(run);
  }
  if (library === "proper-lockfile") {
    mkdirSync(dir, { recursive: true });
    const file = join(dir, "hot");
    writeFileSync(file, "", { flag: "a" });
    // Its own way of waiting: retries with a growing pause, as its documentation shows.
    const retries = { retries: 1_000, factor: 1.2, minTimeout: 1, maxTimeout: 50, randomize: true };
    return async (run) => {
      const release = await lockfile.lock(file, { retries, realpath: false });
      try {
        await run();
      } finally {
        await release();
      }
    };
  }
  const locks = createLocks(`local:${dir}`, handoff === undefined ? {} : { handoff });
  return (run) => locks.using("hot", { wait: Number.POSITIVE_INFINITY }, run);
}

const section = sections();
const work =
  sectionMs === 0 ? async () => {} : () => new Promise<void>((resolve) => setTimeout(resolve, sectionMs));
const served = Array.from({ length: tasks }, () => 0);
let longestWaitMs = 0;

await startingShot();
const startMs = monoMs();
const endMs = startMs + seconds * 1_000;

async function task(i: number): Promise<void> {
  while (monoMs() < endMs) {
    const askedMs = monoMs();
    await section(() => {
      const nowMs = monoMs();
      if (nowMs - askedMs > longestWaitMs) longestWaitMs = nowMs - askedMs;
      if (nowMs < endMs) served[i] = (served[i] as number) + 1;
      return work();
    });
  }
}

await Promise.all(served.map((_, i) => task(i)));
report({ served, longestWaitMs, seconds } satisfies HotKeyResult);
