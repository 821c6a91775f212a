// One node of three is frozen for long while the others are used (P20): what was sent to it must not pile up.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterAll, beforeAll, expect, it } from "vitest";
import { World } from "./fixture.ts";

const MOST_BATCHES = 8;
const LEASE = { ttl: "2s", wait: "60s" } as const;
const world = new World(3);
const { masters } = world;

beforeAll(() => masters.start());
afterAll(async () => {
  masters.thaw(2);
  await world.closeAll();
  await masters.stop();
});

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

function heapBytes(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

it("costs a bounded amount of memory, and the node is used again when it goes on (P16, P20)", async () => {
  const locks = world.locks({ namespace: world.name() });
  const cycles = async (count: number): Promise<void> => {
    for (let at = 0; at < count; at += 1) await (await locks.acquire(`k${at % 50}`, LEASE)).release();
  };
  await cycles(200);
  masters.freeze(2);
  // A leak grows in every batch. The first batches fill what is bounded: the node counts as silent only after
  // a second without an answer.
  const growths: number[] = [];
  while (growths.length < MOST_BATCHES && !growths.some((growth) => growth < 1_000_000)) {
    const before = heapBytes();
    await cycles(1_500);
    growths.push(heapBytes() - before);
  }
  expect(Math.min(...growths)).toBeLessThan(1_000_000);
  masters.thaw(2);
  const holdersOf = async (key: string): Promise<number> => {
    const lease = await locks.acquire(key, LEASE);
    const nodes = (await locks.inspect(key))?.nodes ?? [];
    await lease.release();
    return nodes.filter(({ reason }) => reason.includes("has it held")).length;
  };
  // What the node granted when it went on ends with its ttl.
  for (const key of ["k0", "k10", "k20"])
    await expect.poll(() => holdersOf(key), { timeout: 40_000 }).toBe(3);
});
