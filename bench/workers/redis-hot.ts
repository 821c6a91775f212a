// Tasks of one process that fight for one key in Redis, or in the process itself: sections served per task and the longest wait.

import { Mutex } from "async-mutex";
import { contender, type Library } from "../lib/redis-peers.ts";
import { monoMs, report, settings, startingShot } from "../lib/worker.ts";
import type { HotKeyResult } from "./hot-key.ts";

interface Settings {
  readonly library: Library | "async-mutex";
  readonly url: string;
  readonly key: string;
  readonly tasks: number;
  readonly sectionMs: number;
  readonly seconds: number;
  readonly options?: object;
}

const { library, url, key, tasks, sectionMs, seconds, options } = settings<Settings>();
const mutex = new Mutex();
const chosen = library === "async-mutex" ? null : await contender(library, url, options);
const take = async (): Promise<() => unknown> => (chosen === null ? mutex.acquire() : chosen.take(key));
const served = Array.from({ length: tasks }, () => 0);
let longestWaitMs = 0;

// Opened and warm before the shot.
await (
  await take()
)();
await startingShot();
const endMs = monoMs() + seconds * 1_000;

async function task(i: number): Promise<void> {
  while (monoMs() < endMs) {
    const askedMs = monoMs();
    const release = await take();
    const nowMs = monoMs();
    if (nowMs - askedMs > longestWaitMs) longestWaitMs = nowMs - askedMs;
    if (nowMs < endMs) served[i] = (served[i] as number) + 1;
    if (sectionMs > 0) await new Promise((resolve) => setTimeout(resolve, sectionMs));
    await release();
  }
}

const over = new Promise((resolve) => setTimeout(resolve, (seconds + 5) * 1_000));
// Some never get it again: the run is over all the same.
await Promise.race([Promise.all(served.map((_, i) => task(i))), over]);
report({ served, longestWaitMs, seconds } satisfies HotKeyResult);
