// Proxies silence the connections to a majority of the nodes and accept new ones, as after a NAT timeout. Two
// calls in a row without an answer replace the connection to a node (P13).

import { afterAll, beforeAll, expect, it } from "vitest";
import { Proxy } from "../../../faults/proxy.ts";
import { createLocks } from "../../../src/index.ts";
import { redlock } from "../../../src/stores/redlock/index.ts";
import { StallMeter } from "../../../src/testing/stall-meter.ts";
import { Masters } from "./subject.ts";

const masters = new Masters(3);

beforeAll(() => masters.start());
afterAll(() => masters.stop());

it.each(["redis", "ioredis"] as const)("%s by URL: grants again over new connections", async (driver) => {
  const proxies = await Promise.all(masters.ports.map((port) => Proxy.listen({ host: "127.0.0.1", port })));
  const nodes = proxies.map(({ port }) => `redis://127.0.0.1:${port}`);
  const locks = createLocks(redlock({ nodes, driver }), { namespace: driver, allow: ["fresh-nodes"] });
  await (await locks.acquire("warm up", { wait: "60s" })).release();
  const kept = await locks.acquire("kept", { wait: "60s" });
  // A grant needs two of three nodes. What the third was sent must not be lost, as it may have to say yes.
  const nodesOf = async (key: string): Promise<readonly string[]> =>
    (await locks.inspect(key))?.nodes?.map(({ reason }) => reason.slice(0, "has it held".length)) ?? [];
  await expect.poll(() => nodesOf("kept")).toEqual(Array.from({ length: 3 }, () => "has it held"));
  const [meter, startMs] = [new StallMeter(), performance.now()];
  for (const proxy of proxies.slice(0, 2)) proxy.halfOpen();
  const lease = await locks.acquire("next", { wait: "60s" });
  console.log(`${driver}: the next grant came after ${(performance.now() - startMs).toFixed(0)} ms`);
  expect(meter.workingMs()).toBeLessThan(8_000);
  expect(await kept.verify()).toBe(true);
  await lease.release();
  await kept.release();
  await locks.close();
  await Promise.all(proxies.map((proxy) => proxy.close()));
});
