// Tasks of one process that fight for one key on a PostgreSQL, with one of several libraries.

import { Client } from "pg";
import { createLocks } from "holdfast";
import { monoMs, report, settings, startingShot } from "../lib/worker.ts";
import { verrouOn } from "../lib/verrou.ts";
import type { HotUrlResult } from "./hot-url.ts";

interface Settings {
  readonly url: string;
  readonly library: string;
  readonly tasks: number;
  readonly sectionMs: number;
  readonly seconds: number;
}

interface Opened {
  using(at: number, run: () => Promise<void>): Promise<void>;
  close(): Promise<void>;
}

const { url, library, tasks, sectionMs, seconds } = settings<Settings>();

async function open(): Promise<Opened> {
  if (library === "pg_advisory_lock loop") return advisoryLoop();
  if (library === "@verrou/core") {
    const { using, close } = await verrouOn("pg", url);
    return { using: (_at, run) => using("hot", run), close };
  }
  const locks = createLocks(library === "holdfast, advisory" ? `${url}?mode=advisory` : url);
  return {
    using: (_at, run) => locks.using("hot", { wait: Number.POSITIVE_INFINITY }, run),
    close: () => locks.close(),
  };
}

/** As people write it: a connection per task, which waits in the server. */
async function advisoryLoop(): Promise<Opened> {
  const all: Client[] = [];
  for (let i = 0; i < tasks; i += 1) {
    const client = new Client({ connectionString: url });
    await client.connect();
    all.push(client);
  }
  return {
    async using(at, run) {
      const client = all[at] as Client;
      await client.query("SELECT pg_advisory_lock($1)", [42]);
      try {
        await run();
      } finally {
        await client.query("SELECT pg_advisory_unlock($1)", [42]);
      }
    },
    async close() {
      for (const client of all) await client.end();
    },
  };
}

const { using, close } = await open();
await using(0, async () => {});
await startingShot();
const endMs = monoMs() + seconds * 1_000;
const served = Array.from({ length: tasks }, () => 0);
let [longestWaitMs, grants] = [0, 0];

async function task(i: number): Promise<void> {
  while (monoMs() < endMs) {
    const askedMs = monoMs();
    await using(i, async () => {
      grants += 1;
      longestWaitMs = Math.max(longestWaitMs, monoMs() - askedMs);
      if (monoMs() < endMs) served[i] = (served[i] as number) + 1;
      await new Promise((resolve) => setTimeout(resolve, sectionMs));
    });
  }
}

const over = new Promise((resolve) => setTimeout(resolve, (seconds + 5) * 1_000));
// Some never get it again: the run is over all the same.
await Promise.race([Promise.all(served.map((_none, i) => task(i))), over]);
await Promise.race([close(), new Promise((resolve) => setTimeout(resolve, 1_000))]);
report({ served, longestWaitMs, grants } satisfies HotUrlResult);
