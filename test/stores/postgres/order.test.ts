// When a live waiter may be overtaken (P12), decided by moving what the table says of it, not by waiting.

import { afterAll, beforeAll, expect, it } from "vitest";
import type { OpenStore, Request } from "../../../src/core/store.ts";
import { fenceOf, io, PostgresWorld, request } from "./fixture.ts";

let world: PostgresWorld;
let store: OpenStore;

beforeAll(async () => {
  world = await PostgresWorld.start();
  store = await world.open();
});

afterAll(() => world?.stop());

const again = (one: Request): Request => ({ ...one, seq: one.seq + 1 });

async function queued(
  key: string,
): Promise<{ holder: Request; fence: bigint; early: Request; late: Request }> {
  const [holder, early, late] = [request(key), request(key), request(key)];
  const fence = await fenceOf(store, holder);
  for (const one of [early, late]) expect(await store.attempt(one, io)).toHaveProperty("busy");
  return { holder, fence, early, late };
}

/** Moves a time of a waiter so that it is so far from now. */
async function move(column: "alive_until" | "called_until", { id }: Request, ms: number): Promise<void> {
  const time = "clock_timestamp() + $2 * interval '1 ms'";
  await world.ask(`UPDATE holdfast_waiter SET ${column} = ${time} WHERE id = $1`, [id, ms]);
}

it("a waiter keeps its place until a second after the attempt that it promised", async () => {
  const { holder, fence, early, late } = await queued("late-but-alive");
  const promised = "SELECT extract(epoch FROM alive_until - clock_timestamp()) * 1000 AS ms";
  const [row] = await world.ask(`${promised} FROM holdfast_waiter WHERE id = $1`, [early.id]);
  // A poll interval, a second for a process that is late, and the time that the question took.
  expect(Number(row?.["ms"])).toBeLessThanOrEqual(2_000);
  await move("alive_until", early, 5_000);
  await store.release(holder, null, { lastFences: [fence] }, io);
  expect(await store.attempt(again(late), io)).toHaveProperty("busy");
  expect(await store.attempt(again(early), io)).toHaveProperty("granted");
});

it("a waiter that is later than that counts as dead, and joins the queue again", async () => {
  const { holder, fence, early, late } = await queued("too-late");
  await move("alive_until", early, -1);
  await store.release(holder, null, { lastFences: [fence] }, io);
  expect(await store.attempt(again(early), io)).toHaveProperty("busy");
  expect(await store.attempt(again(late), io)).toHaveProperty("granted");
});

it("a waiter that does not answer its call in time is passed over once, and keeps its place", async () => {
  const { holder, fence, early, late } = await queued("missed");
  await store.release(holder, null, { lastFences: [fence] }, io);
  await move("alive_until", early, 60_000);
  await move("called_until", early, -1);
  const next = await fenceOf(store, again(late));
  const newcomer = request("missed");
  expect(await store.attempt(newcomer, io)).toHaveProperty("busy");
  expect(await store.attempt(again(early), io)).toHaveProperty("busy");
  await store.release(late, null, { lastFences: [next] }, io);
  expect(await store.attempt(again(newcomer), io)).toHaveProperty("busy");
  expect(await store.attempt(again(again(early)), io)).toHaveProperty("granted");
});
