// Every command of this repository answers `--help`, and rejects an option that it does not know.

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { WRONG_USAGE } from "./usage.mjs";

const ROOT: string = join(import.meta.dirname, "..");
const COMMANDS = [
  "bench/main.ts",
  "faults/main.ts",
  "faults/soak/main.ts",
  "scripts/repeat.mjs",
  "scripts/servers.ts",
  "sim/main.ts",
  "sim/mutants/main.ts",
];

describe.each(COMMANDS)("%s", (file) => {
  const run = (arg: string): ReturnType<typeof spawnSync> =>
    spawnSync(process.execPath, ["--import", "tsx", file, arg], { cwd: ROOT, encoding: "utf8" });

  it("prints its usage", { timeout: 60_000 }, () => {
    const { status, stdout, stderr } = run("--help");
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(stdout).toContain("npm run ");
  });

  it("rejects an unknown option", { timeout: 60_000 }, () => {
    const { status, stdout, stderr } = run("--nonsense");
    expect({ status, stdout }).toEqual({ status: WRONG_USAGE, stdout: "" });
    expect(stderr).toContain("npm run ");
    expect(stderr).not.toContain("    at ");
  });
});
