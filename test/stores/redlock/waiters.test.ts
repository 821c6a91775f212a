// Many processes wait for one key: they ask seldom, and a release wakes one of them (P14, P21).

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { World } from "./fixture.ts";

const WAITERS = 30;
const world = new World(3);
const { masters } = world;

beforeAll(() => masters.start());
afterAll(async () => {
  await world.closeAll();
  await masters.stop();
});

/** How many scripts the first node has run. */
async function scriptsRun(): Promise<number> {
  const stats = (await masters.ask(0, "INFO", "commandstats")) as string;
  return [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)].reduce(
    (sum, [, calls]) => sum + Number(calls),
    0,
  );
}

it("waiters deep in the queue ask less often than the first, all are served (P14, P21)", async () => {
  const namespace = world.name();
  const holder = await world.locks({ namespace }).acquire("hot");
  const waiters = Array.from({ length: WAITERS }, () => world.locks({ namespace, deadlock: false }));
  const served = waiters.map(async (locks) => (await locks.acquire("hot", { wait: "150s" })).release());
  const queued = async (): Promise<number> => (await waiters[0]?.inspect("hot"))?.waiters?.length ?? 0;
  await expect.poll(queued).toBe(WAITERS);
  // The interval grows with the time waited, at most to what the position allows.
  await sleep(4_000);
  const [before, beforeMs] = [await scriptsRun(), performance.now()];
  await sleep(2_000);
  // The first asks four times per second. All together ask 24 times once their intervals have grown, and
  // about 30 times before. A busy machine takes longer, and the waiters go on asking meanwhile.
  const mostAsked = (): number => 2 * WAITERS * ((performance.now() - beforeMs) / 1_000);
  expect((await scriptsRun()) - before).toBeLessThan(mostAsked());
  await holder.release();
  expect(new Set(await Promise.all(served))).toEqual(new Set([true]));
  // An attempt and a release of each, what lost the race for a free key, and what was asked while waiting.
  expect((await scriptsRun()) - before).toBeLessThan(9 * WAITERS + mostAsked());
});
