// Tasks of one process that fight for one key on a MySQL, with one of several libraries.

import { createConnection, type Connection, type RowDataPacket } from "mysql2/promise";
import { createLocks } from "holdfast";
import { verrouOn } from "../lib/verrou.ts";
import { monoMs, report, settings, startingShot } from "../lib/worker.ts";

interface Settings {
  readonly url: string;
  readonly library: string;
  readonly tasks: number;
  readonly sectionMs: number;
  readonly seconds: number;
}

export interface HotMysqlResult {
  readonly served: number;
  readonly longestWaitMs: number;
}

type Using = (at: number, run: () => Promise<void>) => Promise<void>;

const { url, library, tasks, sectionMs, seconds } = settings<Settings>();

async function open(): Promise<{ readonly using: Using; close(): Promise<void> }> {
  if (library === "GET_LOCK loop") return getLock();
  if (library === "@verrou/core") {
    const { using: usingKey, close: end } = await verrouOn("mysql2", url);
    return { using: (_at, run) => usingKey("hot", run), close: end };
  }
  const locks = createLocks(library === "holdfast, row" ? `${url}?mode=row` : url);
  return {
    using: (_at, run) => locks.using("hot", { wait: Number.POSITIVE_INFINITY }, run),
    close: () => locks.close(),
  };
}

/** As people write it: a connection per task, which waits in the server. */
async function getLock(): Promise<{ readonly using: Using; close(): Promise<void> }> {
  const all: Connection[] = [];
  for (let i = 0; i < tasks; i += 1) all.push(await createConnection(url));
  return {
    async using(at, run) {
      const connection = all[at] as Connection;
      for (;;) {
        const [rows] = await connection.execute<RowDataPacket[]>("SELECT GET_LOCK(?, 1) AS got", ["hot"]);
        if (Number(rows[0]?.["got"]) === 1) break;
      }
      try {
        await run();
      } finally {
        await connection.execute("SELECT RELEASE_LOCK(?)", ["hot"]);
      }
    },
    async close() {
      for (const connection of all) connection.destroy();
    },
  };
}

const { using, close } = await open();
await using(0, async () => {});
await startingShot();
const endMs = monoMs() + seconds * 1_000;
let served = 0;
let longestWaitMs = 0;

async function task(i: number): Promise<void> {
  while (monoMs() < endMs) {
    const askedMs = monoMs();
    await using(i, async () => {
      longestWaitMs = Math.max(longestWaitMs, monoMs() - askedMs);
      if (monoMs() < endMs) served += 1;
      await new Promise((resolve) => setTimeout(resolve, sectionMs));
    });
  }
}

await Promise.all(Array.from({ length: tasks }, (_none, i) => task(i)));
await close();
report({ served, longestWaitMs } satisfies HotMysqlResult);
