// Real processes that are killed and stopped while they hold, and a real server that is killed while
// something is held. Bounds are ten times the aim; what was measured is printed.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { serverUser, startPostgres } from "../../../scripts/servers/postgres.ts";
import { createLocks } from "../../../src/index.ts";
import { answered, PostgresWorld, until } from "./fixture.ts";
import { StallMeter } from "../../../src/testing/stall-meter.ts";
import { bundledChild } from "../../support/bundled-child.ts";

let world: PostgresWorld;

beforeAll(async () => {
  world = await PostgresWorld.start();
});

afterAll(() => world?.stop());

async function holder(
  url: string,
  key: string,
  ttl: number,
): Promise<{ readonly child: ChildProcess; readonly fence: bigint }> {
  const program = bundledChild(join(import.meta.dirname, "children", "holder.ts"));
  const child = spawn(process.execPath, [program, url, key, String(ttl)], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const [fence] = (await once(child, "message")) as [string];
  return { child, fence: BigInt(fence) };
}

it("the key of an advisory holder that was killed is granted to a waiter at once, under a larger fence (P3, P10)", async () => {
  const url = `${world.url}?mode=advisory`;
  const locks = createLocks(url);
  const times: number[] = [];
  for (let turn = 0; turn < 5; turn += 1) {
    const { child, fence } = await holder(url, "killed", 30_000);
    const waiting = locks.acquire("killed", { wait: "90s" });
    await until("the wait in the server", async () => {
      const rows = await world.ask("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted");
      return rows.length === 1;
    });
    const meter = new StallMeter();
    child.kill("SIGKILL");
    const lease = await waiting;
    times.push(meter.workingMs());
    expect(lease.fence > fence).toBe(true);
    await lease.release();
  }
  console.log(`free after kill -9 (advisory): ${times.map((ms) => ms.toFixed(0)).join(", ")} ms`);
  expect(Math.max(...times)).toBeLessThan(2_000);
  await locks.close();
});

it("an advisory holder that was stopped keeps its key until the idle timeout of its session, and its successor has a larger fence (P2, P3, P7)", async () => {
  const url = `${world.url}?mode=advisory`;
  const locks = createLocks(url);
  const { child, fence } = await holder(url, "stopped", 1_000);
  child.kill("SIGSTOP");
  const sinceMs = performance.now();
  const meter = new StallMeter();
  const lease = await locks.acquire("stopped", { wait: "90s" });
  const freedMs = performance.now() - sinceMs;
  console.log(`free after SIGSTOP (advisory, ttl 1000): ${freedMs.toFixed(0)} ms`);
  // Renewed every third of its ttl, so at least two thirds of it were left.
  expect(freedMs).toBeGreaterThan(500);
  expect(meter.workingMs()).toBeLessThan(10 * 1_100);
  expect(lease.fence > fence).toBe(true);
  const told = once(child, "message");
  child.kill("SIGCONT");
  expect(await told).toEqual(["lost", undefined]);
  expect(lease.held).toBe(true);
  await lease.release();
  child.kill("SIGKILL");
  await locks.close();
});

it("leases and fences in the table survive a kill -9 of the server (P1, P3)", async () => {
  const dataFolder = mkdtempSync(join(tmpdir(), "holdfast-postgres-data-"));
  const user = serverUser();
  if (user !== undefined) chownSync(dataFolder, user.uid, user.gid);
  const first = await startPostgres({ own: true, dataFolder });
  const [holding, other] = [createLocks(first.url), createLocks(first.url)];
  const lease = await holding.acquire("kept", { ttl: "2m" });
  expect(await answered(() => other.tryAcquire("kept"))).toBeNull();
  first.kill("SIGKILL");
  await first.stop();
  const second = await startPostgres({ own: true, dataFolder, port: first.port });
  await until("an answer of the server", () => other.inspect("kept").then(Boolean, () => false));
  expect(await answered(() => other.tryAcquire("kept"))).toBeNull();
  expect(lease.held).toBe(true);
  expect(await lease.verify()).toBe(true);
  await lease.release();
  const next = await other.acquire("kept");
  expect(next.fence > lease.fence).toBe(true);
  await next.release();
  await holding.close();
  await other.close();
  await second.stop();
  rmSync(dataFolder, { recursive: true, force: true });
});
