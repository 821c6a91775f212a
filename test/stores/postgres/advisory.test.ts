// Session locks: what becomes of a waiter that does not answer.

import { afterAll, beforeAll, expect, it } from "vitest";
import type { OpenStore, Request } from "../../../src/core/store.ts";
import { createLocks } from "../../../src/index.ts";
import { answered, io, PostgresWorld, request, until } from "./fixture.ts";

let world: PostgresWorld;

beforeAll(async () => {
  world = await PostgresWorld.start();
});

afterAll(() => world?.stop());

it("a waiter that has stopped holds up the others for its claim only, not for its ttl (P12)", async () => {
  const open = (): Promise<OpenStore> => world.open({ url: world.url, mode: "advisory" });
  const [holder, stopped, next] = [await open(), await open(), await open()];
  const ask = (): Request => request("k", { ttlMs: 120_000 });
  const [first, second, third] = [ask(), ask(), ask()];
  expect(await holder.attempt(first, io)).toHaveProperty("granted");
  // It waits in the server and never asks again, as a process that was stopped.
  expect(await stopped.attempt(second, io)).toHaveProperty("busy");
  expect(await next.attempt(third, io)).toHaveProperty("busy");
  await holder.release(first, null, { lastFences: [0n] }, io);
  let seq = 1;
  const granted = async (): Promise<boolean> =>
    "granted" in (await next.attempt({ ...third, seq: (seq += 1) }, io));
  await until("the grant of the next one", granted, 60_000);
});

it("a process takes at most half of the connections of a server, and says so (P17, P20)", async () => {
  const small = await PostgresWorld.start({ settings: { max_connections: "20" } });
  const locks = createLocks(`${small.url}?mode=advisory`);
  const leases = [];
  for (let held = 0; held < 10; held += 1) leases.push(await locks.acquire(`held:${held}`, { wait: 60_000 }));
  await expect(answered(() => locks.tryAcquire("one more"))).rejects.toMatchObject({
    code: "ERR_STORE_UNAVAILABLE",
    message: expect.stringContaining("max_connections (20)") as string,
  });
  expect(await leases[0]?.release()).toBe(true);
  const next = await locks.acquire("one more", { wait: 60_000 });
  expect(next.held).toBe(true);
  await locks.close();
  await small.stop();
});
