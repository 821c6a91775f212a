// A program that only locks: it lives as long as a call is under way, and ends by itself when none is.

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import { startZooKeeper } from "../../../scripts/servers/zookeeper.ts";
import { bundledChild } from "../../support/bundled-child.ts";

const SCRIPT: string = join(import.meta.dirname, "..", "etcd", "children", "plain-script.ts");
const SAID = "used, tried, 1 holder, listed job, verified true, released true, 0 dangers\n";

describe("a script that only locks", () => {
  let server: RunningServer;
  beforeAll(async () => {
    server = await startZooKeeper();
  });
  afterAll(() => server?.stop());

  it.each(["close", "no close"])(
    "is not ended before its answers come, and ends by itself (%s)",
    async (end) => {
      const args = [bundledChild(SCRIPT), server.url, end];
      const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 100_000 });
      expect(stdout).toBe(SAID);
    },
  );
});
