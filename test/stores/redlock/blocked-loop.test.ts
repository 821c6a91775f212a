// A process whose event loop is blocked finds its answers when it goes on. It must not take nodes for silent,
// nor close their connections, because its timers ran before it read from its sockets.

import { setImmediate as turn } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { World } from "./fixture.ts";

const world = new World(3);
const { masters } = world;

beforeAll(() => masters.start());
afterAll(async () => {
  masters.thaw(0);
  await world.closeAll();
  await masters.stop();
});

function block(ms: number): void {
  const endMs = performance.now() + ms;
  while (performance.now() < endMs);
}

/** Requests leave within a few turns of the event loop. */
async function leave(): Promise<void> {
  for (let at = 0; at < 5; at += 1) await turn();
}

// The timeout of a call at the default ttl is 2 s; a node is waited for 1 s.
it.each([1_200, 2_300])(
  "grants what the others answered while one node is frozen, blocked for %i ms (P8)",
  async (ms) => {
    const locks = world.locks({ namespace: world.name() });
    for (let at = 0; at < 20; at += 1) await (await locks.acquire(`warm${at}`)).release();
    masters.freeze(0);
    const calls = Promise.all(Array.from({ length: 200 }, (_, at) => locks.tryAcquire(`k${at}`)));
    await leave();
    block(ms);
    const leases = (await calls).filter((lease) => lease !== null);
    expect(leases.length).toBe(200);
    const released = Promise.all(leases.map((lease) => lease.release()));
    await leave();
    block(ms);
    expect(new Set(await released)).toEqual(new Set([true]));
    masters.thaw(0);
  },
);
