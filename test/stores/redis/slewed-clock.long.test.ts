// A server whose clock is slewed as fast as chrony slews by default, in both directions, at the default ttl:
// the lease of a holder that is cut off passes to the next one only when its holder stopped believing in it.
// HOLDFAST_SLEWED=20 asks for 20 minutes.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CHRONY_SLEW, ClockShim, Offset, Slew } from "../../../faults/clock-shim.ts";
import { Proxy } from "../../../faults/proxy.ts";
import { findProgram } from "../../../scripts/servers/packages.ts";
import { redisProgram } from "../../../scripts/servers/redis.ts";
import { createLocks } from "../../../src/index.ts";
import { RedisWorld } from "./fixture.ts";

const MINUTES = Number(process.env["HOLDFAST_SLEWED"] ?? 0);
const KEYS = MINUTES === 0 ? 3 : 12;

let folder: string;
let shim: ClockShim;

beforeAll(async () => {
  shim = await ClockShim.build();
  folder = mkdtempSync(join(tmpdir(), "holdfast-slew-"));
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe.concurrent.each([
  ["fast", CHRONY_SLEW],
  ["slow", -CHRONY_SLEW],
])("a server clock that is too %s by 8.3 percent", (name, rate) => {
  it(
    "gives no key away that its holder believes in (P1, P2)",
    async () => {
      const offset = new Offset(join(folder, name));
      const found = await findProgram(redisProgram);
      const env = { ...found.env, ...(shim.environment(offset) as Record<string, string>) };
      const world = await RedisWorld.start({ program: { ...found, env } });
      const began = { server: await timeOf(world), local: Date.now() };
      const slew = new Slew(
        (ms) => offset.set(ms),
        () => rate,
      );
      const near = createLocks(world.url);
      const endMs = performance.now() + MINUTES * 60_000;
      const watched = Array.from({ length: KEYS }, async (_none, at) => {
        // Cut off, so that the server alone decides when the lease is over.
        const proxy = await Proxy.listen({ host: "127.0.0.1", port: world.server.port });
        const far = createLocks(`redis://127.0.0.1:${proxy.port}`);
        let rounds = 0;
        do {
          const lease = await far.acquire(`slewed ${at}`, { wait: "60s" });
          proxy.cut();
          const next = await near.acquire(`slewed ${at}`, { wait: "90s" });
          expect(lease.held).toBe(false);
          expect(next.fence > lease.fence).toBe(true);
          proxy.heal();
          await next.release();
          rounds += 1;
        } while (performance.now() < endMs);
        await far.close();
        await proxy.close();
        return rounds;
      });
      const rounds = await Promise.all(watched);
      expect(Math.min(...rounds)).toBeGreaterThan(0);
      // The server really was asked with a clock that is off.
      const ran = (await timeOf(world)) - began.server;
      expect(ran / (Date.now() - began.local) - 1).toBeCloseTo(rate, 1);
      slew.stop();
      await near.close();
      await world.stop();
      offset.close();
      console.log(`${name}: ${rounds.reduce((sum, one) => sum + one, 0)} leases ran out, 0 overlaps`);
    },
    120_000 + MINUTES * 120_000,
  );
});

async function timeOf(world: RedisWorld): Promise<number> {
  const [seconds, us] = (await world.ask("TIME")) as readonly string[];
  return Number(seconds) * 1_000 + Number(us) / 1_000;
}
