// Session locks: what becomes of a waiter that does not answer.

import { afterAll, beforeAll, expect, it } from "vitest";
import type { OpenStore, Request } from "../../../src/core/store.ts";
import { io, PostgresWorld, request, until } from "./fixture.ts";

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
