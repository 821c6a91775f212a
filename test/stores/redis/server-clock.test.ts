// The clock of the server is set while leases live: what that does to fences (P3), and who is told (P2).

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ClockShim, Offset } from "../../../faults/clock-shim.ts";
import { findProgram } from "../../../scripts/servers/packages.ts";
import { freePort } from "../../../scripts/servers/ports.ts";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import { redisProgram, startRedis } from "../../../scripts/servers/redis.ts";
import { createLocks, type Locks, type LocksOptions } from "../../../src/index.ts";

let folder: string;
let offset: Offset;
let port: number;
let server: RunningServer;
const opened = new Set<Locks>();

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "holdfast-revoked-"));
  offset = new Offset(join(folder, "offset"));
  port = await freePort();
  server = await start();
});

afterEach(async () => {
  await Promise.all([...opened].map((locks) => locks.close()));
  opened.clear();
  await server.stop();
  offset.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Nothing is saved: a restart forgets everything. */
async function start(): Promise<RunningServer> {
  const found = await findProgram(redisProgram);
  const shim = (await ClockShim.build()).environment(offset) as Record<string, string>;
  const program = { ...found, env: { ...found.env, ...shim } };
  return startRedis({ own: true, port, dataFolder: join(folder, "data"), program });
}

function client(options: LocksOptions = {}): Locks {
  const locks = createLocks(`redis://127.0.0.1:${port}`, options);
  opened.add(locks);
  return locks;
}

it("a clock set back after a hand-off does not reverse the fences of a revoked lease", async () => {
  const HANDED_ON_AFTER_MS = 1_200;
  const [holder, other] = [client({ handoff: "3s" }), client()];
  const first = await holder.acquire("k", { ttl: "5s" });
  const next = holder.acquire("k", { ttl: "5s", wait: "60s" });
  await new Promise((resolve) => setTimeout(resolve, HANDED_ON_AFTER_MS));
  await first.release();
  const handedOn = await next;
  // The fence of the hand-off has kept up with the clock.
  expect(handedOn.fence).toBeGreaterThan(first.fence + 500_000n);
  offset.set(50 - HANDED_ON_AFTER_MS);
  expect(await other.revoke("k", { reason: "a test" })).toBe(true);
  const later = await other.acquire("k", { wait: "60s" });
  expect(later.fence).toBeGreaterThan(handedOn.fence);
});

it("a forced revoke leaves no fences so far ahead that a restart reverses them", async () => {
  const [holder, other] = [client(), client()];
  await holder.acquire("k", { ttl: "1h" });
  await other.revoke("k", { reason: "a test", force: true });
  const before = await other.acquire("k", { wait: "60s" });
  server.kill("SIGKILL");
  await server.stop();
  server = await start();
  const after = await client().acquire("k", { wait: "60s" });
  expect(after.fence).toBeGreaterThan(before.fence);
});

it.each([
  ["forward", 20_000],
  ["back", -3_600_000],
])("a clock set %s is an event and a finding of whoever renews (P2)", async (_way, jumpMs) => {
  const locks = client({ grace: "100ms" });
  const jumps: { readonly node: string; readonly jumpMs: number }[] = [];
  locks.on("clock", (jump) => jumps.push(jump));
  const lease = await locks.acquire("k", { ttl: "60s", wait: "60s" });
  await lease.extend();
  expect(jumps).toEqual([]);
  offset.set(jumpMs);
  await lease.extend();
  expect(jumps).toHaveLength(1);
  expect(jumps[0]?.node).toBe("redis");
  expect(Math.sign(jumps[0]?.jumpMs ?? 0)).toBe(Math.sign(jumpMs));
  const found = (await locks.check()).filter(({ id }) => id === "clock");
  expect(found.map(({ level }) => level)).toEqual(["warning"]);
});
