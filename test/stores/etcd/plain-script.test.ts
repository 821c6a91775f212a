// A program that only locks: it lives as long as a call is under way, and ends by itself when none is and
// nothing is held.

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startEtcd } from "../../../scripts/servers/etcd.ts";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import { bundledChild } from "../../support/bundled-child.ts";

const SCRIPT: string = join(import.meta.dirname, "children", "plain-script.ts");
const SAID = "used, tried, 1 holder, listed job, verified true, released true, 0 dangers\n";

describe("a script that only locks", () => {
  let server: RunningServer;
  beforeAll(async () => {
    server = await startEtcd();
  });
  afterAll(() => server?.stop());

  for (const end of ["close", "no close"]) {
    for (const order of ["fifo", "exclusive"]) {
      it(`is not ended before its answers come, and ends by itself (${order}, ${end})`, async () => {
        const args = [bundledChild(SCRIPT), `${server.url}?order=${order}`, end];
        const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 100_000 });
        expect(stdout).toBe(SAID);
      });
    }
  }
});
