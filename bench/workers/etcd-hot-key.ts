// Tasks of one process that fight for one key on etcd: sections served per task and the longest wait. The peer has no waiting of its
// own: a lock that is taken rejects, so it is asked again after a pause of chance, as its users do.

import { Etcd3, EtcdLockFailedError } from "etcd3";
import { createLocks } from "holdfast";
import { monoMs, report, settings, startingShot } from "../lib/worker.ts";

interface Settings {
  readonly library: "holdfast" | "etcd3";
  readonly url: string;
  readonly key: string;
  readonly tasks: number;
  readonly sectionMs: number;
  readonly seconds: number;
  readonly handoff?: number;
}

export interface EtcdHotKeyResult {
  readonly served: readonly number[];
  readonly longestWaitMs: number;
}

type Section = (run: () => Promise<void>) => Promise<void>;
const { library, url, key, tasks, sectionMs, seconds, handoff } = settings<Settings>();
const RETRY_MS = 10;

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function sections(): Section {
  if (library === "holdfast") {
    const locks = createLocks(url, handoff === undefined ? {} : { handoff });
    return (run) => locks.using(key, { wait: Number.POSITIVE_INFINITY }, run);
  }
  const hosts = url
    .replace("etcd://", "")
    .split(",")
    .map((host) => `http://${host}`);
  const client = new Etcd3({ hosts });
  return async (run) => {
    for (;;) {
      const lock = client.lock(key).ttl(30);
      try {
        await lock.acquire();
      } catch (error) {
        if (!(error instanceof EtcdLockFailedError)) throw error;
        await pause(RETRY_MS * (0.5 + Math.random()));
        continue;
      }
      try {
        return await run();
      } finally {
        await lock.release();
      }
    }
  };
}

const section = sections();
const work = sectionMs === 0 ? async () => {} : () => pause(sectionMs);
const served = Array.from({ length: tasks }, () => 0);
let longestWaitMs = 0;

await startingShot();
const endMs = monoMs() + seconds * 1_000;

async function task(i: number): Promise<void> {
  while (monoMs() < endMs) {
    const askedMs = monoMs();
    await section(() => {
      const nowMs = monoMs();
      if (nowMs < endMs) longestWaitMs = Math.max(longestWaitMs, nowMs - askedMs);
      if (nowMs < endMs) served[i] = (served[i] as number) + 1;
      return work();
    });
  }
}

// Whoever still waits at the end is not waited for: the figures are those of the time that was set.
await Promise.race([Promise.all(served.map((_, i) => task(i))), pause(seconds * 1_000 + 1_000)]);
report({ served, longestWaitMs } satisfies EtcdHotKeyResult);
