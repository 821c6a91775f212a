// One of many processes whose many tasks wait for one key. Nothing is passed on inside of a process, so every release goes to etcd.

import { createLocks } from "holdfast";
import { monoMs, report, settings, startingShot } from "../lib/worker.ts";

interface Settings {
  readonly url: string;
  readonly key: string;
  readonly tasks: number;
  readonly holdMs: number;
  readonly seconds: number;
}

export interface CrowdResult {
  /** [fence, granted at, let go at] */
  readonly sections: readonly (readonly [string, number, number])[];
}

const { url, key, tasks, holdMs, seconds } = settings<Settings>();
const locks = createLocks(url, { handoff: 0 });
const sections: [string, number, number][] = [];
const over = new AbortController();
const wait = Number.POSITIVE_INFINITY;

async function task(): Promise<void> {
  while (!over.signal.aborted) {
    const lease = await locks.acquire(key, { wait, signal: over.signal });
    const gotMs = monoMs();
    await new Promise((resolve) => setTimeout(resolve, holdMs));
    sections.push([String(lease.fence), gotMs, monoMs()]);
    await lease.release();
  }
}

const all = Array.from({ length: tasks }, () => task().catch(() => {}));
await startingShot();
await new Promise((resolve) => setTimeout(resolve, seconds * 1_000));
over.abort();
await Promise.all(all);
await locks.close();
report({ sections } satisfies CrowdResult);
