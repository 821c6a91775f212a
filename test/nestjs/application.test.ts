// The example application as two processes over a real Redis: SIGTERM in the middle of a method under a lock.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { createClient, type RedisClientType } from "redis";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { RunningServer } from "../../scripts/servers/process.ts";
import { startRedis } from "../../scripts/servers/redis.ts";
import { createLocks, type Locks } from "../../src/index.ts";

const root = join(import.meta.dirname, "..", "..");
let server: RunningServer;
let client: RedisClientType;
let locks: Locks;
const started: ChildProcess[] = [];

interface Replica {
  readonly process: ChildProcess;
  readonly url: string;
  /** The exit code and the signal. */
  readonly ended: Promise<unknown[]>;
}

async function replica(label: string): Promise<Replica> {
  const child = join(import.meta.dirname, "children", "application.ts");
  const running = spawn(process.execPath, ["--import", "tsx", child, server.url, label], {
    cwd: root,
    env: { ...process.env, TSX_TSCONFIG_PATH: join(root, "examples", "nestjs", "tsconfig.json") },
    stdio: ["ignore", "pipe", "inherit"],
  });
  started.push(running);
  const ended = once(running, "exit");
  const said = createInterface({ input: running.stdout }).on("line", () => {});
  const first = await Promise.race([once(said, "line"), ended]);
  return { process: running, url: String(first[0]), ended };
}

const journal = (): Promise<string[]> => client.lRange("journal", 0, -1);
const pay = async (url: string, order: string): Promise<[number, string]> => {
  const response = await fetch(`${url}/orders/${order}/payment`, { method: "POST" });
  return [response.status, await response.text()];
};

beforeAll(async () => {
  server = await startRedis({ own: true });
  client = createClient({ url: server.url });
  await client.connect();
  locks = createLocks(server.url);
});

afterAll(async () => {
  for (const child of started) child.kill("SIGKILL");
  await locks?.close();
  client?.destroy();
  await server?.stop();
});

it("SIGTERM during a method under a lock: it ends first, and no method runs twice (P1, P10)", async () => {
  const [old, next] = await Promise.all([replica("old"), replica("new")]);
  expect(await journal()).toHaveLength(1); // One of the two has closed the day.
  const health = await fetch(`${next.url}/health`);
  expect([health.status, await health.json()]).toMatchObject([200, { info: { locks: { status: "up" } } }]);

  const first = pay(old.url, "42");
  await expect.poll(journal).toContain("old begins 42");
  const second = pay(next.url, "42");
  await expect.poll(async () => (await locks.inspect("order:42"))?.waiters?.length).toBe(1);

  old.process.kill("SIGTERM");
  // It rejects new calls, so it is shutting down, while the method runs.
  await client.set("approved:probe", "yes");
  await expect.poll(async () => (await pay(old.url, "probe"))[0]).toBe(503);
  expect((await locks.inspect("order:42"))?.holders.map(({ label }) => label)).toEqual(["old"]);
  expect(old.process.exitCode).toBe(null);

  await client.set("approved:42", "yes");
  expect(await first).toEqual([201, "paid by old"]);
  expect(await second).toEqual([201, "paid by new"]);
  expect(await old.ended).toEqual([null, "SIGTERM"]);
  expect((await journal()).filter((line) => line.endsWith("42"))).toEqual([
    "old begins 42",
    "old ends 42",
    "new begins 42",
    "new ends 42",
  ]);
  next.process.kill("SIGTERM");
  expect(await next.ended).toEqual([null, "SIGTERM"]);
  expect((await journal()).filter((line) => line.endsWith("closes the day"))).toHaveLength(1);
});
