// One task per process and no hand-off inside it: the key goes from process to process. Logs when each lease
// was granted and when its release was called.

import { createLocks } from "holdfast";
import { monoMs, report, settings, startingShot } from "../lib/worker.ts";

interface Settings {
  readonly url: string;
  readonly seconds: number;
  readonly key?: string;
  readonly sectionMs?: number;
}

export interface HandOffResult {
  /** [fence, granted at, release called at] */
  readonly sections: readonly (readonly [string, number, number])[];
}

const { url, seconds, key = "hot", sectionMs = 0 } = settings<Settings>();
const locks = createLocks(url, { handoff: 0 });
const sections: [string, number, number][] = [];
await startingShot();
const endMs = monoMs() + seconds * 1_000;
while (monoMs() < endMs) {
  const lease = await locks.acquire(key, { wait: Number.POSITIVE_INFINITY });
  const gotMs = monoMs();
  if (sectionMs > 0) await new Promise((resolve) => setTimeout(resolve, sectionMs));
  sections.push([String(lease.fence), gotMs, monoMs()]);
  await lease.release();
  // Back in the queue a little later, so that the other process is the one that waits.
  await new Promise((resolve) => setTimeout(resolve, 1));
}
await locks.close();
report({ sections } satisfies HandOffResult);
