// What opening a redlock of five nodes costs this process. Where processes are started on a busy machine, a
// costly opening misses its deadline, and each retry costs as much again.

import { createClient } from "redis";
import { afterAll, beforeAll, expect, it } from "vitest";
import { World } from "./fixture.ts";

const ROUNDS = 3;
const world = new World(5);

beforeAll(() => world.masters.start());
afterAll(async () => {
  await world.closeAll();
  await world.masters.stop();
});

/** The least of a few rounds: whatever disturbs a round makes it dearer. */
async function cpuMs(work: (round: number) => Promise<unknown>): Promise<number> {
  const each: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const before = process.cpuUsage();
    await work(round);
    const { user, system } = process.cpuUsage(before);
    each.push((user + system) / 1_000);
  }
  return Math.min(...each);
}

it("five nodes share the class of their clients: opening costs less than three clients (P13)", async () => {
  const namespace = world.name();
  const opening = await cpuMs(() => world.locks({ namespace }, { driver: "redis" }).tryAcquire("k"));
  const url = (round: number): string => `redis://127.0.0.1:${round + 1}`;
  const creating = await cpuMs((round) => Promise.resolve(createClient({ url: url(round) })));
  expect(opening).toBeLessThan(3 * creating);
});
