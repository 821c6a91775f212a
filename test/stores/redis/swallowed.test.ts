// Timed out, but succeeded: the server grants and the reply is lost, time and again. What was granted is adopted or undone; nothing is
// granted twice and nothing is left behind. HOLDFAST_SWALLOWED=1000 asks for more than the usual few.

import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { Proxy } from "../../../faults/proxy.ts";
import { createLocks, type Lease } from "../../../src/index.ts";
import { redis } from "../../../src/stores/redis/index.ts";
import { io, RedisWorld, until } from "./fixture.ts";

const COUNT = Number(process.env["HOLDFAST_SWALLOWED"] ?? 24);
const TURN_MS = 2_000;

let world: RedisWorld;
let proxy: Proxy;

beforeAll(async () => {
  world = await RedisWorld.start();
  proxy = await Proxy.listen({ host: "127.0.0.1", port: world.server.port });
});

afterEach(() => proxy.heal());

afterAll(async () => {
  await proxy?.close();
  await world?.stop();
});

describe.each([
  { driver: "redis", scripts: true },
  { driver: "ioredis", scripts: true },
  { driver: "redis", scripts: false },
] as const)("replies that are swallowed, %o", ({ driver, scripts }) => {
  it(
    `${COUNT} acquires: no double grant, no leak, fences grow (P1, P3, P8, P16)`,
    async () => {
      const key = `swallowed-${driver}-${scripts}`;
      const far = createLocks(redis({ url: `redis://127.0.0.1:${proxy.port}`, driver, scripts }), {
        ttl: 900,
      });
      const near = createLocks(world.url);
      await (await near.acquire(key)).release();
      await (await far.acquire(key)).release();
      let last = 0n;
      let [adopted, undone] = [0, 0];
      const entered = (lease: Lease): void => {
        expect(lease.fence > last).toBe(true);
        last = lease.fence;
      };
      for (let turn = 0; turn < COUNT; turn += 1) {
        // The last cut broke its connections; what it says while it connects is not to be swallowed.
        await until("the way back", () =>
          far.inspect(key).then(
            () => true,
            () => false,
          ),
        );
        if (scripts) proxy.swallow("replies");
        const asked = turn % 3 === 2 ? far.tryAcquire(key) : far.acquire(key, { wait: "100s" });
        const answer = asked.catch((error: unknown) => error);
        if (scripts) {
          await until("the grant at the server", async () => (await near.inspect(key)) !== null);
        } else {
          // A transaction asks twice, so the cut comes at any moment of it.
          await io.sleep((turn % 7) / 2);
          proxy.swallow("replies");
          await io.sleep(20);
        }
        proxy.heal();
        const got = (await answer) as Lease | Error;
        if (got instanceof Error) {
          undone += 1;
          expect(got).toMatchObject({ code: "ERR_STORE_UNAVAILABLE" });
          const next = await near.acquire(key, { wait: "100s" });
          entered(next);
          await next.release();
          continue;
        }
        adopted += 1;
        entered(got);
        const rival = await near.tryAcquire(key);
        if (got.held) expect(rival).toBeNull();
        await rival?.release();
        await got.release();
        await until("a free key", async () => (await near.inspect(key)) === null);
      }
      expect(adopted + undone).toBe(COUNT);
      expect(adopted).toBeGreaterThan(0);
      await until("a free key", async () => (await near.inspect(key)) === null);
      await far.close();
      await near.close();
      const left = async (): Promise<number> =>
        ((await world.ask("KEYS", `holdfast:{${key}}*`)) as string[]).length;
      // What is remembered of attempts that were not answered goes with their time.
      await until("an empty server", async () => (await left()) === 0);
    },
    20_000 + COUNT * TURN_MS,
  );
});
