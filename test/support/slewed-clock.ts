// A server whose clock is slewed as fast as chrony slews by default, in both directions, at the default ttl:
// the lease of a holder that is cut off passes to the next one only when its holder stopped believing in it.
// HOLDFAST_SLEWED=20 asks for 20 minutes.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { CHRONY_SLEW, Slew } from "../../faults/clock-shim.ts";
import { Proxy } from "../../faults/proxy.ts";
import { targetNamed } from "../../faults/targets/index.ts";
import type { FaultyClock, Target } from "../../faults/targets/target.ts";
import { createLocks } from "../../src/index.ts";

const MINUTES = Number(process.env["HOLDFAST_SLEWED"] ?? 0);
const KEYS = MINUTES === 0 ? 3 : 12;

/** Declares the tests. `store` names a target of the fault runs. */
export function describeSlewedClock(store: string): void {
  describe.concurrent.each([
    ["fast", CHRONY_SLEW],
    ["slow", -CHRONY_SLEW],
  ])(`a clock of ${store} that is too %s by 8.3 percent`, (name, rate) => {
    it(
      "gives no key away that its holder believes in (P1, P2)",
      async () => {
        const folder = mkdtempSync(join(tmpdir(), "holdfast-slew-"));
        const target = await targetNamed(store)(folder, "server-slew");
        const clock = (target.clocks ?? [])[0] as FaultyClock;
        const began = { server: await clock.nowMs(), local: Date.now() };
        const slew = new Slew(
          (ms) => clock.set(ms),
          () => rate,
        );
        const rounds = await Promise.all(
          Array.from({ length: KEYS }, (_none, at) => handOver(target, `slewed ${at}`)),
        );
        expect(Math.min(...rounds)).toBeGreaterThan(0);
        // The server really was asked with a clock that is off.
        const ran = (await clock.nowMs()) - began.server;
        expect(ran / (Date.now() - began.local) - 1).toBeCloseTo(rate, 1);
        slew.stop();
        await target.stop();
        rmSync(folder, { recursive: true, force: true });
        const leases = rounds.reduce((sum, one) => sum + one, 0);
        console.log(`${store}, ${name}: ${leases} leases ran out, 0 overlaps`);
      },
      400_000 + MINUTES * 120_000,
    );
  });
}

/** A holder is cut off from the server and the next one waits, again and again. Gives how often. */
async function handOver(target: Target, key: string): Promise<number> {
  const endMs = performance.now() + MINUTES * 60_000;
  const near = createLocks(target.url);
  // Cut off, so that the server alone decides when the lease is over.
  const proxy = await Proxy.listen({ host: "127.0.0.1", port: target.servers[0]?.port ?? 0 });
  const far = createLocks(target.through?.([proxy.port]) ?? "");
  let rounds = 0;
  do {
    const lease = await far.acquire(key, { wait: "5m" });
    proxy.cut();
    const next = await near.acquire(key, { wait: "5m" });
    expect(lease.held).toBe(false);
    expect(next.fence > lease.fence).toBe(true);
    proxy.heal();
    // On a busy machine it may end with its ttl instead.
    await next.release().catch(() => false);
    rounds += 1;
  } while (performance.now() < endMs);
  await Promise.all([far.close(), near.close()]);
  await proxy.close();
  return rounds;
}
