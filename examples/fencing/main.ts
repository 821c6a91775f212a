// The pause that no lock can prevent, on real processes: a holder is stopped (SIGSTOP) between its look and its write, its lease
// ends, a successor does its work, and the sleeper goes on (SIGCONT). Without a guard its late write wipes out the
// successor's; with one the resource refuses it. Run it with `npm run example:fencing`.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { createLocks, type Locks } from "holdfast";
import { kinds, type ServerKind } from "../../scripts/servers/kinds.ts";
import { openResource } from "./resources.ts";
import { startService } from "./service.ts";

/** Which servers hold a counter, by the name under which scripts/servers knows them. */
const SERVERS: readonly (readonly [title: string, kind: string])[] = [
  ["Redis key, guardKey", "redis"],
  ["etcd key, guardKey", "etcd"],
  ["PostgreSQL row, guardRow", "postgres"],
  ["MariaDB row, guardRow", "mariadb"],
];

interface Stage {
  readonly title: string;
  readonly url: string;
}

interface Row {
  readonly title: string;
  readonly guarded: boolean;
  /** What the sleeper was told, and what the counter says after two that meant to raise it by one each. */
  readonly sleeper: string;
  readonly counter: number;
}

async function play(locks: Locks, store: string, { title, url }: Stage, guarded: boolean): Promise<Row> {
  const name = `fencing_${title.replaceAll(/\W+/g, "_")}_${guarded ? "guarded" : "open"}_${process.pid}`;
  const args = [store, url, name, guarded ? "guarded" : "open"];
  const holder = spawn(
    process.execPath,
    ["--import", "tsx", join(import.meta.dirname, "holder.ts"), ...args],
    {
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  const said = lines(holder);
  const resource = await openResource(url, name);
  try {
    await said.next();
    holder.kill("SIGSTOP");
    // Granted when the sleeper's lease has run out.
    await locks.using(name, { wait: "20s" }, async (lease) => {
      const guard = guarded ? lease : null;
      await resource.write((await resource.read(guard)) + 1, guard);
    });
    holder.kill("SIGCONT");
    const sleeper = await said.next();
    await once(holder, "exit");
    const counter = await locks.using(name, (lease) => resource.read(guarded ? lease : null));
    return { title, guarded, sleeper, counter };
  } finally {
    holder.kill("SIGKILL");
    await resource.close();
  }
}

function lines(child: ChildProcess): { next(): Promise<string> } {
  const input = createInterface({ input: child.stdout as NodeJS.ReadableStream })[Symbol.asyncIterator]();
  return {
    async next() {
      const step = await input.next();
      if (step.done === true) throw new Error("the holder ended early");
      return step.value;
    },
  };
}

function show({ title, guarded, sleeper, counter }: Row): string {
  const what =
    sleeper === "wrote"
      ? `the sleeper wrote; two raised the counter, it says ${counter}: ${counter === 1 ? "one update is LOST" : "nothing is lost"}`
      : `the sleeper was refused; the counter says ${counter}`;
  return `${title.padEnd(26)} ${guarded ? "with guard   " : "without guard"}  ${what}`;
}

const found = SERVERS.filter(([, kind]) => kinds[kind] !== undefined);
const servers = await Promise.all(
  found.map(async ([title, kind]) => ({ title, kind, server: await (kinds[kind] as ServerKind).start() })),
);
const service = await startService();
const store = servers.find(({ kind }) => kind === "redis")?.server.url ?? "local:";
const locks = createLocks(store, { label: "the successor" });
try {
  const stages: Stage[] = servers.map(({ title, server }) => ({ title, url: server.url }));
  stages.push({ title: "HTTP service, requireFence", url: service.url });
  for (const stage of stages) {
    const rows = await Promise.all([false, true].map((guarded) => play(locks, store, stage, guarded)));
    for (const row of rows) {
      console.log(show(row));
      if (row.guarded === (row.sleeper === "wrote")) process.exitCode = 1;
    }
  }
} finally {
  await locks.close();
  service.stop();
  await Promise.all(servers.map(({ server }) => server.stop()));
}
