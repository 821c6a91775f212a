// The example as people run it: every guard refuses the holder that slept, and without a guard the update is
// lost.

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "..", "..");
const main = join(root, "examples", "fencing", "main.ts");

test("a holder that was stopped past its ttl is refused by each guard, and not without one (P4)", async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ["--import", "tsx", main], { cwd: root });
  const rows = stdout.trim().split("\n");
  const titles = new Set(rows.map((row) => row.slice(0, 26).trim()));
  for (const title of [
    "Redis key, guardKey",
    "etcd key, guardKey",
    "PostgreSQL row, guardRow",
    "HTTP service, requireFence",
  ]) {
    expect([...titles]).toContain(title);
  }
  for (const title of titles) {
    const [without, guarded] = rows.filter((row) => row.startsWith(title));
    expect(without).toMatch(/without guard +the sleeper wrote.*it says 1: one update is LOST/);
    expect(guarded).toMatch(/with guard +the sleeper was refused; the counter says 1/);
  }
  expect(rows).toHaveLength(2 * titles.size);
});
