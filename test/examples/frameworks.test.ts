// The examples for web frameworks, schedulers and queues, with the real packages. The locks are those of the
// test kit, so a busy key, a lost lease and ten minutes take no time.

import type { AddressInfo } from "node:net";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";
import { createTask } from "node-cron";
import { afterEach, describe, expect, it } from "vitest";
import { fastifyRoutes, honoRoutes, type Pay, underLock } from "../../examples/frameworks/http.ts";
import { paymentProcessor } from "../../examples/frameworks/jobs.ts";
import { POST } from "../../examples/frameworks/next-route.ts";
import { nightly, runCoordinator } from "../../examples/frameworks/schedulers.ts";
import { LockLostError, type Locks } from "../../src/index.ts";
import { createTestLocks, type TestLocks } from "../../src/testing/index.ts";

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

function world(): TestLocks {
  const locks = createTestLocks();
  ends.push(() => locks.close());
  return locks;
}

type Fetch = (path: string, signal?: AbortSignal) => Promise<Response>;
const payment =
  (url: string): Fetch =>
  (path, signal) =>
    fetch(`${url}${path}`, { method: "POST", signal: signal ?? null });

const frameworks: [string, (locks: Locks, pay: Pay) => Promise<Fetch>][] = [
  [
    "Fastify",
    async (locks, pay) => {
      const app = fastify({ forceCloseConnections: true });
      fastifyRoutes(app, locks, pay);
      ends.push(() => app.close());
      return payment(await app.listen({ port: 0, host: "127.0.0.1" }));
    },
  ],
  [
    "Hono",
    async (locks, pay) => {
      const app = new Hono();
      honoRoutes(app, locks, pay);
      return async (path, signal) => app.request(path, { method: "POST", signal: signal ?? null });
    },
  ],
  [
    "Express",
    async (locks, pay) => {
      const app = express();
      const handler = underLock(locks, async (request, response, signal) => {
        response.send(await pay(request.params.order, signal));
      });
      app.post("/orders/:order/payment", handler);
      const server = app.listen(0, "127.0.0.1");
      await new Promise((resolve) => server.once("listening", resolve));
      ends.push(async () => {
        server.close();
        server.closeAllConnections();
      });
      return payment(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    },
  ],
];

describe.each(frameworks)("%s", (_name, open) => {
  it("answers under the lock, 409 where it is busy, and 503 where the lease is lost", async () => {
    const locks = world();
    const ask = await open(locks, async (order, signal) => {
      if (order === "lost") locks.lose("order:lost");
      signal.throwIfAborted();
      return `paid ${order}`;
    });
    const paid = await ask("/orders/42/payment");
    expect([paid.status, await paid.text()]).toEqual([200, "paid 42"]);
    expect(await locks.inspect("order:42")).toBe(null);

    locks.busy("order:43", "worker-7");
    const waiting = ask("/orders/43/payment");
    await expect.poll(async () => (await locks.inspect("order:43"))?.waiters?.length).toBe(1);
    await locks.advance(5_000);
    const busy = await waiting;
    expect([busy.status, await busy.text()]).toEqual([409, expect.stringContaining("worker-7")]);
    expect((await ask("/orders/lost/payment")).status).toBe(503);
  });

  it("a client that goes away leaves the queue", async () => {
    const locks = world();
    const ask = await open(locks, async () => "paid");
    locks.busy("order:1");
    const client = new AbortController();
    const waiters = async (): Promise<number | undefined> =>
      (await locks.inspect("order:1"))?.waiters?.length;
    const left = ask("/orders/1/payment", client.signal).catch(() => null);
    await expect.poll(waiters).toBe(1);
    client.abort();
    await expect.poll(waiters).toBe(0);
    await left;
  });
});

it("node-cron: of two replicas one runs a fire, and the other skips it", async () => {
  const locks = world();
  const fires: string[] = [];
  let skipped = 0;
  for (const _replica of [1, 2]) {
    const job = ({ date }: { date: Date }): void => void fires.push(date.toISOString());
    const options = { name: "cleanup", distributed: true, runCoordinator: runCoordinator(locks) };
    const task = createTask("* * * * * *", job, options);
    task.on("execution:skipped", ({ reason }) => {
      if (reason === "not-elected") skipped += 1;
    });
    ends.push(async () => task.destroy());
    await task.start();
  }
  await expect.poll(() => skipped).toBeGreaterThan(0);
  expect(fires.length).toBeGreaterThan(0);
  expect(new Set(fires).size).toBe(fires.length);
});

it("node-cron: a fire stays taken while its job runs, however long it takes", async () => {
  const locks = world();
  const coordinator = runCoordinator(locks);
  expect(await coordinator.shouldRun("job@1", 1_000)).toBe(true);
  await locks.advance(600_000);
  expect(await coordinator.shouldRun("job@1", 1_000)).toBe(false);
  await coordinator.onComplete?.("job@1");
  await expect.poll(() => locks.inspect("job@1")).toBe(null);
});

it("croner: of three replicas one runs the job", async () => {
  const locks = world();
  let runs = 0;
  const jobs = [1, 2, 3].map(() => nightly(locks, "0 3 * * *", async () => void (runs += 1)));
  await Promise.all(jobs.map((job) => job.trigger()));
  expect(runs).toBe(1);
  await locks.advance(60_000);
  await Promise.all(jobs.map((job) => job.trigger()));
  expect(runs).toBe(2);
  for (const job of jobs) job.stop();
});

it("BullMQ: a processor runs one job of an order at a time, or fails", async () => {
  const locks = world();
  const fences: bigint[] = [];
  const process = paymentProcessor(locks, async (order, fence) => {
    fences.push(fence);
    if (order === "lost") locks.lose("order:lost");
    return `paid ${order}`;
  });
  const both = [process({ data: { order: "1" } }), process({ data: { order: "1" } })];
  expect(await Promise.all(both)).toEqual(["paid 1", "paid 1"]);
  expect(fences[1]! > fences[0]!).toBe(true);
  await expect(process({ data: { order: "lost" } })).rejects.toThrow(LockLostError);
  locks.busy("order:2");
  const failed = expect(process({ data: { order: "2" } })).rejects.toThrow("order 2 is busy");
  await locks.advance(10_000);
  await failed;
});

it("Next.js: a route handler answers, and shares its locks with its next load", async () => {
  const before = process.env["REDIS_URL"];
  process.env["REDIS_URL"] = "memory:next";
  const params = Promise.resolve({ order: "42" });
  const ask = async (): Promise<{ fence: string }> => {
    const response = await POST(new Request("http://shop/orders/42/payment", { method: "POST" }), { params });
    expect(response.status).toBe(200);
    return (await response.json()) as { fence: string };
  };
  const [first, second] = [await ask(), await ask()];
  expect(BigInt(second.fence) > BigInt(first.fence)).toBe(true);
  process.env["REDIS_URL"] = before;
  const kept = globalThis as { paymentLocks?: Locks };
  await kept.paymentLocks?.close();
  delete kept.paymentLocks;
});
