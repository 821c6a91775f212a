// The store between real processes: hand-over, death, stopping, inheritance and namespaces.

import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { OpenStore } from "../../../src/core/store.ts";
import { nodeSystem } from "../../../src/system/node.ts";
import { StallMeter } from "../../../src/testing/stall-meter.ts";
import {
  actor,
  type Child,
  freshDir,
  grantOf,
  heard,
  isBusy,
  openIn,
  plainIo,
  request,
  tell,
  waitFor,
} from "./fixture.ts";

/** Ten times the aim of 20 ms: the kernel needs some 8 ms to take a Node process apart. */
const REPLACED_WITHIN_MS = 200;
/** Of the hand-over, which takes about 1 ms. */
const HANDED_OVER_WITHIN_MS = 100;
const io = plainIo();
let dir: ReturnType<typeof freshDir>;
let store: OpenStore;
let actors: Child[];
beforeEach(async () => {
  dir = freshDir();
  store = await openIn(dir.path);
  actors = [];
});
afterEach(async () => {
  await Promise.all(actors.map((one) => one.end()));
  await store.close();
  dir.remove();
});

async function anActor(before: readonly string[] = []): Promise<Child> {
  const one = await actor(dir.path, before);
  actors.push(one);
  return one;
}

async function untilQueued(key: string, waiters: number): Promise<void> {
  await expect
    .poll(async () => (await store.inspect(key, io))?.waiters?.length, { interval: 2 })
    .toBe(waiters);
}

describe("two processes", () => {
  it("hand a key over by push, with a larger fence (P3, P11)", async () => {
    const other = await anActor();
    const asked = request("k");
    const { fences } = await grantOf(store, asked);
    other.say(JSON.stringify(["wait", "k"]));
    await untilQueued("k", 1);
    const meter = new StallMeter();
    const releasedAtMs = nodeSystem.monoMs();
    await store.release(asked, null, { lastFences: fences }, io);
    const answer = await heard(other);
    expect(BigInt(answer["granted"] as string)).toBeGreaterThan(fences[0] as bigint);
    const tookMs = (answer["atMs"] as number) - releasedAtMs;
    expect(tookMs - meter.stalledMs()).toBeLessThan(HANDED_OVER_WITHIN_MS);
  });

  it("and two more never are inside at once, and fences only grow (P1, P3)", async () => {
    const four = await Promise.all([anActor(), anActor(), anActor(), anActor()]);
    const answers = await Promise.all(four.map((one) => tell(one, "count", "k", "60")));
    expect(answers).toEqual(four.map(() => ({ counted: 60 })));
    expect(readFileSync(join(dir.path, "counter"), "utf8").split(" ")[0]).toBe("240");
  });
});

describe("a process that takes and frees a key without a pause", () => {
  it("does not keep others from the line (P12)", async () => {
    const busy = await anActor();
    busy.say(JSON.stringify(["spin", "k", "1500"]));
    await expect.poll(() => store.inspect("k", io), { interval: 1 }).not.toBeNull();
    const times: number[] = [];
    for (let i = 0; i < 20; i += 1) {
      const asked = request("k");
      const meter = new StallMeter();
      const { fences } = await waitFor(store, asked);
      times.push(meter.workingMs());
      await store.release(asked, null, { lastFences: fences }, io);
    }
    times.sort((a, b) => a - b);
    expect(times[10]).toBeLessThan(50);
    expect(await heard(busy)).toHaveProperty("spun");
  });
});

describe("a killed holder", () => {
  it("is replaced by its waiter in milliseconds (P10)", async () => {
    const times: number[] = [];
    for (const key of ["a", "b", "c"]) {
      const holder = await anActor();
      expect(await tell(holder, "take", key)).toEqual({ take: "granted" });
      const waiting = waitFor(store, request(key));
      await untilQueued(key, 1);
      const meter = new StallMeter();
      process.kill(holder.pid, "SIGKILL");
      await waiting;
      times.push(meter.workingMs());
    }
    expect(Math.max(...times)).toBeLessThan(REPLACED_WITHIN_MS);
  });

  it("does not wake the whole line, only its first (P14)", async () => {
    const holder = await anActor();
    await tell(holder, "take", "k");
    const others = [store, await openIn(dir.path), await openIn(dir.path)];
    const woken: number[] = [];
    for (const [i, one] of others.entries()) {
      const asked = request("k");
      await one.subscribe?.(asked, () => woken.push(i));
      expect(await isBusy(one, asked)).toBe(true);
    }
    await holder.end();
    await expect.poll(() => woken, { interval: 2 }).toContain(0);
    // Time in which a second one would be woken.
    await io.sleep(100);
    expect(woken).toEqual([0]);
    await Promise.all(others.slice(1).map((one) => one.close()));
  });

  it("in the line is passed over (P12)", async () => {
    const asked = request("k");
    const { fences } = await grantOf(store, asked);
    const [dead, alive] = [await anActor(), await anActor()];
    dead.say(JSON.stringify(["wait", "k"]));
    await untilQueued("k", 1);
    alive.say(JSON.stringify(["wait", "k"]));
    await untilQueued("k", 2);
    await dead.end();
    await store.release(asked, null, { lastFences: fences }, io);
    expect(await heard(alive)).toHaveProperty("granted");
  });

  it("whose child inherited its life keeps the key until the child is gone", async () => {
    const holder = await anActor();
    await tell(holder, "take", "k");
    const { pid } = (await tell(holder, "child", "30")) as { pid: number };
    const waiting = waitFor(store, request("k"));
    let granted = false;
    void waiting.then(() => (granted = true));
    await untilQueued("k", 1);
    await holder.end();
    // Time in which the waiter would notice that the holder has ended.
    await io.sleep(400);
    expect(granted).toBe(false);
    const meter = new StallMeter();
    process.kill(pid, "SIGKILL");
    await waiting;
    expect(meter.workingMs()).toBeLessThan(REPLACED_WITHIN_MS);
  });
});

describe("a stopped process", () => {
  it("that holds a key keeps it while its lease lasts, and no longer (P1)", async () => {
    const stopped = await anActor();
    await tell(stopped, "take", "k");
    process.kill(stopped.pid, "SIGSTOP");
    expect(await isBusy(store, request("k", { queue: false }))).toBe(true);
    const short = await openIn(dir.path);
    const asked = request("short", { ttlMs: 150, graceMs: 50 });
    await grantOf(short, asked);
    await waitFor(store, request("short"));
    await short.close();
  });
});

describe("processes of different pid namespaces", () => {
  // Root needs no user namespace; others may be forbidden to make one, and then the kernel's refusal is what
  // is seen.
  const unshare = [
    "unshare",
    ...(process.geteuid?.() === 0 ? [] : ["-Ur"]),
    "-pf",
    "--mount-proc",
    "--kill-child",
  ];

  it("meet in one directory and see each other die", async () => {
    const permitted = spawnSync(unshare[0] as string, [...unshare.slice(1), "true"], { encoding: "utf8" });
    if (permitted.status !== 0) {
      expect(permitted.stderr).toMatch(/unshare/);
      return;
    }
    const inside = await anActor(unshare);
    expect(await tell(inside, "take", "k")).toEqual({ take: "granted" });
    expect(await isBusy(store, request("k", { queue: false }))).toBe(true);
    const waiting = waitFor(store, request("k"));
    await untilQueued("k", 1);
    const meter = new StallMeter();
    await inside.end();
    await waiting;
    expect(meter.workingMs()).toBeLessThan(REPLACED_WITHIN_MS);
  });
});
