// A program that only locks: it lives as long as a call is under way, and ends by itself when none is.

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import { startRedis } from "../../../scripts/servers/redis.ts";
import { createLocks } from "../../../src/index.ts";
import { bundledChild } from "../../support/bundled-child.ts";

const SCRIPT: string = join(import.meta.dirname, "children", "plain-script.ts");
const SAID = "used, tried, 1 holder, listed job, verified true, released true, 0 dangers\n";

describe("a script that only locks", () => {
  let server: RunningServer;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server?.stop());

  for (const end of ["close", "no close"]) {
    for (const driver of ["redis", "ioredis"]) {
      it(`is not ended before its answers come (${driver}, ${end})`, async () => {
        const args = [bundledChild(SCRIPT), server.url, driver, end];
        const { stdout } = await promisify(execFile)(process.execPath, args, {
          timeout: 120_000,
        });
        expect(stdout).toBe(SAID);
      });
    }
  }

  it("releases a lease that it forgot when it ends by itself (P16)", async () => {
    const args = [bundledChild(SCRIPT), server.url, "redis", "forget"];
    await promisify(execFile)(process.execPath, args, { timeout: 120_000 });
    const locks = createLocks(server.url);
    expect(await locks.inspect("forgotten")).toBeNull();
    await locks.close();
  });
});
