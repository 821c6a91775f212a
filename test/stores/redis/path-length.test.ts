// How long the uncontended path is: the files and functions of ours that one warm `using` crosses. A program
// that locks now and then runs most of them uncompiled, so their number decides what a lock costs there.
// These numbers only go down.

import { Session } from "node:inspector/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createLocks, type Locks } from "../../../src/index.ts";
import { redis } from "../../../src/stores/redis/index.ts";
import { RedisWorld } from "./fixture.ts";

const MOST_FILES = 37;
const MOST_FUNCTIONS = 192;
const ROUNDS = 4;

let world: RedisWorld;
let locks: Locks;

beforeAll(async () => {
  world = await RedisWorld.start();
  locks = createLocks(redis({ url: world.url }));
});

afterAll(async () => {
  await locks?.close();
  await world?.stop();
});

it("crosses few files and functions for a lock that nobody else wants", async () => {
  for (let i = 0; i < 5; i += 1) await locks.using("path", () => {});
  const session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  const crossed = async (): Promise<Map<string, string>> => {
    const { result } = await session.post("Profiler.takePreciseCoverage");
    const functions = new Map<string, string>();
    for (const { url, functions: all } of result) {
      const [, file] = /\/src\/(.*\.ts)$/.exec(url) ?? [];
      for (const { functionName, ranges } of file === undefined ? [] : all) {
        const [range] = ranges;
        if (range !== undefined && range.count > 0)
          functions.set(`${file}:${range.startOffset}:${functionName}`, file as string);
      }
    }
    return functions;
  };
  let used: [name: string, file: string][] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    await crossed();
    // What timers run meanwhile does not belong to the call.
    await new Promise((resolve) => setTimeout(resolve, 300));
    const idle = await crossed();
    await locks.using("path", () => {});
    const now = [...(await crossed())].filter(([name]) => !idle.has(name));
    // On a busy machine timers run during the call as well: the shortest path counts.
    if (used.length === 0 || now.length < used.length) used = now;
  }
  session.disconnect();
  const files = new Set(used.map(([, file]) => file));
  const names = used.map(([name]) => name).join("\n");
  expect(files.size, [...files].join("\n")).toBeGreaterThan(5);
  expect(files.size, [...files].join("\n")).toBeLessThanOrEqual(MOST_FILES);
  expect(used.length, names).toBeLessThanOrEqual(MOST_FUNCTIONS);
});
