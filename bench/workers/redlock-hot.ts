// Tasks of one process that fight for one key on five masters: sections served per task and the longest wait.

import { contender, type Library } from "../lib/redlock-peers.ts";
import { monoMs, report, settings, startingShot } from "../lib/worker.ts";
import type { HotKeyResult } from "./hot-key.ts";

interface Settings {
  readonly library: Library;
  readonly urls: readonly string[];
  readonly key: string;
  readonly tasks: number;
  readonly sectionMs: number;
  readonly seconds: number;
}

const { library, urls, key, tasks, sectionMs, seconds } = settings<Settings>();
const { take } = await contender(library, urls);
const served = Array.from({ length: tasks }, () => 0);
/** Since when a task has been waiting; NaN while it does not. */
const waiting = Array.from({ length: tasks }, () => Number.NaN);
let longestWaitMs = 0;

// Opened and warm before the shot.
await (
  await take(`${key}-warm-${process.pid}`)
)();
await startingShot();
const endMs = monoMs() + seconds * 1_000;

async function task(i: number): Promise<void> {
  while (monoMs() < endMs) {
    const askedMs = monoMs();
    waiting[i] = askedMs;
    const release = await take(key).catch(() => null);
    const nowMs = monoMs();
    waiting[i] = Number.NaN;
    longestWaitMs = Math.max(longestWaitMs, nowMs - askedMs);
    if (release === null) continue;
    if (nowMs < endMs) served[i] = (served[i] as number) + 1;
    if (sectionMs > 0) await new Promise((resolve) => setTimeout(resolve, sectionMs));
    await Promise.resolve(release()).catch(() => {});
  }
}

const over = new Promise((resolve) => setTimeout(resolve, (seconds + 5) * 1_000));
// Some never get it again: the run is over all the same.
await Promise.race([Promise.all(served.map((_, i) => task(i))), over]);
for (const sinceMs of waiting)
  if (!Number.isNaN(sinceMs)) longestWaitMs = Math.max(longestWaitMs, monoMs() - sinceMs);
report({ served, longestWaitMs, seconds } satisfies HotKeyResult);
