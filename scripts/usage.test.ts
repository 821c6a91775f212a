// What the commands of this repository answer to `--help` and to a wrong command line.

import { execFile } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { WRONG_USAGE, wholeNumber } from "./usage.mjs";

const HELPER: string = join(import.meta.dirname, "usage.mjs");
const PROGRAM = `
import { parseArgs } from "node:util";
import { readUsage } from ${JSON.stringify(HELPER)};
const options = { seed: { type: "string" } };
const read = (args) => parseArgs({ args, options }).values;
const { seed } = readUsage("usage: program --seed N", read, process.argv.slice(1));
console.log("seed", seed);
`;

interface Ended {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

function runProgram(...args: readonly string[]): Promise<Ended> {
  return new Promise((resolve) => {
    const command = ["--input-type=module", "--eval", PROGRAM, "--", ...args];
    const child = execFile(process.execPath, command, (_error, out, err) =>
      resolve({ code: child.exitCode ?? -1, out, err }),
    );
  });
}

describe("a command that reads its arguments with readUsage", () => {
  it("goes on with arguments that it knows", async () => {
    expect(await runProgram("--seed", "7")).toEqual({ code: 0, out: "seed 7\n", err: "" });
  });

  it.each(["--help", "-h"])("prints its usage for %s", async (flag) => {
    expect(await runProgram(flag)).toEqual({ code: 0, out: "usage: program --seed N\n", err: "" });
  });

  it("exits with 64 for an option that it does not know, and says which", async () => {
    const { code, out, err } = await runProgram("--sed", "7");
    expect({ code, out }).toEqual({ code: WRONG_USAGE, out: "" });
    expect(err).toMatch(/'--sed'[^]*usage: program --seed N\n$/);
    expect(err).not.toContain("    at ");
  });
});

describe("wholeNumber", () => {
  it("returns the number", () => expect(wholeNumber("--runs", "12", 1)).toBe(12));

  it.each(["", "x", "-1", "1.5", "1e3", "0", "99999999999999999999"])("rejects %j", (text) => {
    expect(() => wholeNumber("--runs", text, 1)).toThrow(
      `--runs must be a whole number of at least 1, got ${JSON.stringify(text)}`,
    );
  });
});
