// `npm run soak -- --minutes 30`: several processes over 200 keys on a Redis, while processes are stopped, the server is frozen,
// connections are dropped and scripts forgotten. What must stay flat: memory, open files, resources of the event loop, connections and
// keys of the server. Writes faults/soak/results/redis.json.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { createClient } from "redis";
import { ranNow } from "../../scripts/ran-now.ts";
import { startRedis } from "../../scripts/servers/redis.ts";
import { readUsage, wholeNumber } from "../../scripts/usage.mjs";
import type { Sample, SoakSetup } from "./client.ts";

const USAGE = `npm run soak -- [options]

  --minutes N     how long (default 30)
  --processes N   client processes (default 6)
  --tasks N       tasks in each (default 10)
  --keys N        keys of each kind (default 200)
  --every N       seconds between two samples (default 10)
  --help          this`;

const OPTIONS = {
  minutes: { type: "string", default: "30" },
  processes: { type: "string", default: "6" },
  tasks: { type: "string", default: "10" },
  keys: { type: "string", default: "200" },
  every: { type: "string", default: "10" },
} as const;

const { minutes, processes, tasks, keys, everySeconds } = readUsage(USAGE, (args) => {
  const { values } = parseArgs({ args, options: OPTIONS });
  const number = (name: keyof typeof values): number => wholeNumber(`--${name}`, values[name], 1);
  return {
    minutes: number("minutes"),
    processes: number("processes"),
    tasks: number("tasks"),
    keys: number("keys"),
    everySeconds: number("every"),
  };
});

/** How much the last third may lie above the first: what is kept grows by the key, never by the lock. */
const MOST_GROWTH = 1.2;
/** Whatever is this small may double. */
const LEAST: Readonly<Record<string, number>> = { heapMb: 5, rssMb: 40, files: 5, resources: 10 };

interface Moment {
  readonly seconds: number;
  readonly heapMb: number;
  readonly rssMb: number;
  readonly files: number;
  readonly resources: number;
  readonly sections: number;
  readonly refusals: number;
  readonly serverMb: number;
  readonly serverKeys: number;
  readonly serverClients: number;
}

const server = await startRedis({ own: true });
const admin = await createClient({ url: server.url }).connect();
const setup: SoakSetup = { url: server.url, keys, tasks };
const children = Array.from({ length: processes }, () => start());
const strikes: Record<string, number> = {};
const moments: Moment[] = [];

function start(): ChildProcess {
  const program = join(import.meta.dirname, "client.ts");
  return spawn(process.execPath, ["--expose-gc", "--import", "tsx", program, JSON.stringify(setup)], {
    cwd: join(import.meta.dirname, "..", ".."),
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
}

const any = (): ChildProcess => children[Math.floor(Math.random() * children.length)] as ChildProcess;

const FAULTS: Readonly<Record<string, () => Promise<unknown>>> = {
  async pause() {
    const child = any();
    child.kill("SIGSTOP");
    await sleep(Math.random() * 4_000);
    child.kill("SIGCONT");
  },
  async "server-freeze"() {
    server.kill("SIGSTOP");
    await sleep(Math.random() * 3_000);
    server.kill("SIGCONT");
  },
  "dropped-connections": () => admin.sendCommand(["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]),
  "lost-listeners": () => admin.sendCommand(["CLIENT", "KILL", "TYPE", "pubsub"]),
  "script-flush": () => admin.sendCommand(["SCRIPT", "FLUSH"]),
};

async function torment(untilMs: number): Promise<void> {
  const names = Object.keys(FAULTS);
  while (performance.now() < untilMs) {
    await sleep(1_000 + Math.random() * 4_000);
    const name = names[Math.floor(Math.random() * names.length)] as string;
    strikes[name] = (strikes[name] ?? 0) + 1;
    await FAULTS[name]?.();
  }
}

function sampleOf(child: ChildProcess): Promise<Sample> {
  return new Promise((resolve) => {
    child.once("message", (sample) => resolve(sample as Sample));
    child.send("sample");
  });
}

async function look(sinceMs: number): Promise<Moment> {
  const samples = await Promise.all(children.map(sampleOf));
  const info = await admin.info();
  const of = (name: string): number => Number(new RegExp(`^${name}:(\\d+)`, "m").exec(info)?.[1] ?? 0);
  const sum = (pick: (one: Sample) => number): number => samples.reduce((all, one) => all + pick(one), 0);
  return {
    seconds: Math.round((performance.now() - sinceMs) / 1_000),
    heapMb: round(sum((one) => one.heapMb)),
    rssMb: round(sum((one) => one.rssMb)),
    files: sum((one) => one.files),
    resources: sum((one) => one.resources),
    sections: sum((one) => one.sections),
    refusals: sum((one) => one.refusals),
    serverMb: round(of("used_memory") / 1e6),
    serverKeys: Number(await admin.sendCommand(["DBSIZE"])),
    serverClients: of("connected_clients"),
  };
}

const round = (value: number): number => Math.round(value * 10) / 10;

function middle(all: readonly Moment[], pick: keyof Moment): number {
  return all.map((one) => one[pick]).sort((a, b) => a - b)[all.length >> 1] ?? 0;
}

const sinceMs = performance.now();
const endMs = sinceMs + minutes * 60_000;
const tormented = torment(endMs - 5_000);
while (performance.now() < endMs) {
  await sleep(everySeconds * 1_000);
  const moment = await look(sinceMs);
  moments.push(moment);
  console.log(JSON.stringify(moment));
}
await tormented;
for (const child of children) child.send("end");
await Promise.all(children.map((child) => new Promise((resolve) => child.once("exit", resolve))));
const exits = children.map((child) => child.exitCode);
await admin.close();
await server.stop();

// The first tenth is for warming up: compiled code, pools, and every key met once.
const warm = moments.slice(Math.ceil(moments.length / 10));
const third = Math.max(1, Math.floor(warm.length / 3));
const [first, last] = [warm.slice(0, third), warm.slice(-third)];
const flat = (
  ["heapMb", "rssMb", "files", "resources", "serverMb", "serverKeys", "serverClients"] as const
).map((name) => {
  const [before, after] = [middle(first, name), middle(last, name)];
  const fine = after <= before * MOST_GROWTH || after - before <= (LEAST[name] ?? 3);
  return { name, first: before, last: after, flat: fine };
});
console.table(flat);
const result = { ...ranNow(), minutes, processes, ...setup, url: undefined, strikes, flat, moments };
const folder = join(import.meta.dirname, "results");
mkdirSync(folder, { recursive: true });
writeFileSync(join(folder, "redis.json"), `${JSON.stringify(result, null, 1)}\n`);
if (flat.some((one) => !one.flat) || exits.some((code) => code !== 0)) {
  console.error(
    `FAILED: ${flat
      .filter((one) => !one.flat)
      .map(({ name }) => name)
      .join(", ")} exits ${exits.join(",")}`,
  );
  process.exitCode = 1;
}
