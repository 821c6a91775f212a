// What people type wrong: one line that says what, exit code 64, nothing locked, nothing run.

import { cpSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { defaultStoreWarning } from "../../src/cli/default-store.ts";
import { thisMachine } from "../../src/stores/local/machine.ts";
import { builtDir } from "../support/built.ts";
import { Sandbox } from "./fixture.ts";

let box: Sandbox;
beforeAll(() => void (box = new Sandbox()));
afterAll(() => box.close());

const RUN = ["--", "touch", "ran"];

const WRONG: readonly (readonly [string, readonly string[], RegExp])[] = [
  ["no such command", ["bogus"], /unknown command 'bogus' \(see holdfast --help\)/],
  ["no such option", ["run", "--bogus", "k", ...RUN], /unknown option '--bogus' \(see holdfast run --help\)/],
  ["a misspelt option", ["run", "--waite", "5s", "k", ...RUN], /Did you mean --wait\?/],
  ["no key", ["run"], /the key is missing/],
  ["no key, only dashes", ["run", "--"], /the key is missing/],
  ["no command", ["run", "k"], /COMMAND is missing: holdfast run/],
  ["no command after the dashes", ["run", "k", "--"], /COMMAND is missing/],
  ["no dashes", ["run", "k", "touch", "ran"], /-- must stand between KEY and COMMAND/],
  ["an option after the key", ["run", "k", "-n", ...RUN], /options must stand before KEY/],
  ["an empty command", ["run", "k", "--", ""], /COMMAND must not be empty/],
  ["an empty key", ["run", "", ...RUN], /key must not be empty/],
  ["a key that is too long", ["run", "k".repeat(4_097), ...RUN], /key must be at most 4096 bytes/],
  [
    "a wait in an unknown unit",
    ["run", "-w", "5x", "k", ...RUN],
    /--wait must be a number of seconds, .*, got "5x" \(see holdfast run --help\)/,
  ],
  ["a negative wait", ["run", "--wait=-1", "k", ...RUN], /--wait must be a number of seconds, .*, got "-1"/],
  [
    "a time without a unit",
    ["run", "--at-least", "30", "k", ...RUN],
    /--at-least must be a duration with a unit, .*, got "30"/,
  ],
  ["a ttl that is too short", ["run", "--ttl", "1ms", "k", ...RUN], /ttl must be from 50 ms to 7 days/],
  ["at least nothing", ["run", "--at-least", "0s", "k", ...RUN], /atLeast must be greater than 0, got 0/],
  ["an option without its value", ["run", "--ttl"], /--ttl needs a value/],
  [
    "a limit of none",
    ["run", "--limit", "0", "k", ...RUN],
    /--limit must be a whole number of at least 1, got/,
  ],
  [
    "half a limit",
    ["run", "--limit", "1.5", "k", ...RUN],
    /--limit must be a whole number of at least 1, got/,
  ],
  [
    "shared and limited",
    ["run", "--shared", "--limit", "2", "k", ...RUN],
    /limit must be 1 with mode "shared", got 2/,
  ],
  [
    "an unknown way to end",
    ["run", "--on-lost", "shout", "k", ...RUN],
    /--on-lost must be one of term, kill, warn, got "shout"/,
  ],
  [
    "an exit code that is none",
    ["run", "-E", "256", "k", ...RUN],
    /--busy-code must be a whole number from 0 to 255, got "256"/,
  ],
  ["an unknown allowance", ["run", "--allow", "anything", "k", ...RUN], /allow must be an array of eviction/],
  [
    "an unknown store",
    ["run", "--store", "bogus://x", "k", ...RUN],
    /must be a URL with a known scheme, got "bogus:"/,
  ],
  ["a store that is no URL", ["ls", "--store", "here"], /must be a URL with a known scheme, got "here"/],
  ["a relative directory", ["inspect", "--store", "local:here", "k"], /absolute path/],
  ["a key too many", ["inspect", "a", "b"], /too many arguments/],
  ["no key to inspect", ["inspect"], /the key is missing/],
  ["an unknown shell", ["completion", "ksh"], /the shell must be one of bash, zsh, fish, got "ksh"/],
  ["a bad count", ["ls", "--limit", "-1"], /--limit must be a whole number of at least 1, got/],
];

describe("wrong on the command line", () => {
  for (const [what, args, line] of WRONG) {
    it(`${what} is reported in one line and exits with 64`, async () => {
      const { code, stdout, stderr } = await box.call(args);
      expect({ code, stdout }).toEqual({ code: 64, stdout: "" });
      expect(stderr).toMatch(line);
      expect(stderr).toMatch(/^holdfast: [^\n]*\n$/);
      expect(box.read("ran")).toBe("");
    });
  }

  it("nothing at all shows the help and ends in 64", async () => {
    const { code, stderr } = await box.call([]);
    expect(code).toBe(64);
    expect(stderr).toMatch(/^Usage: holdfast/);
  });

  it("an argument that is not UTF-8 would reach the child changed, and is refused (P18)", async () => {
    const line = `exec "${process.execPath}" "${box.main}" run k -- printf '%s' "$(printf '\\377')"`;
    const { code, stderr } = await box.spawn("sh", ["-c", line], { HOLDFAST_STORE: box.store }).ended;
    expect(code).toBe(64);
    expect(stderr).toBe("holdfast: an argument is not valid UTF-8 and would be changed on its way\n");
    expect((await box.run(["run", "\uFFFD", "--", "true"])).code).toBe(0);
  });
});

describe("a store that cannot be used", () => {
  it("ends in 69, with one line", async () => {
    writeFileSync(box.file("plain"), "not a directory");
    const { code, stderr } = await box.call(["run", "--store", `local:${box.file("plain")}/in`, "k", ...RUN]);
    expect(code).toBe(69);
    // On a busy machine opening may take so long that the command says that it waits.
    const lines = stderr.split("\n").filter((line) => !line.startsWith("holdfast: k: waiting, "));
    expect(lines).toEqual([expect.stringMatching(/^holdfast: k: the local store could not /), ""]);
    expect((await box.call(["ls", "--store", `local:${box.file("plain")}/in`])).code).toBe(69);
    expect(box.read("ran")).toBe("");
  });
});

describe("a store that is not named", () => {
  const COMMANDS = [["run", "k", ...RUN], ["ls"], ["inspect", "k"], ["watch"], ["doctor"], ["bench"]];

  it("because its URL is empty is an error of every command (P19)", async () => {
    for (const [command, ...args] of COMMANDS as [string, ...string[]][]) {
      const { code, stderr } = await box.call([command, "--store", "", ...args]);
      expect({ command, code }).toEqual({ command, code: 64 });
      expect(stderr).toMatch(/^holdfast: (k: )?--store is empty\. [^\n]*\n$/);
    }
    const revoke = await box.call(["revoke", "k", "--reason", "x", "--yes"], { HOLDFAST_STORE: "" });
    expect(revoke).toMatchObject({ code: 64, stdout: "" });
    expect(revoke.stderr).toMatch(/^holdfast: HOLDFAST_STORE is empty\. [^\n]*\n$/);
    expect(box.read("ran")).toBe("");
  });

  it("is the local one, and where that is likely to be a mistake a line says so", async () => {
    // The namespace is wrong, so that nothing is opened: the default store is not the test's own.
    const args = ["--namespace", "not one", "k", ...RUN];
    const warning = defaultStoreWarning(thisMachine(), process.geteuid?.() ?? null);
    const lines = warning === null ? [] : [`holdfast: ${warning}`];
    const env = { HOLDFAST_STORE: undefined };
    const { code, stderr } = await box.call(["run", ...args], env);
    expect(code).toBe(64);
    expect(stderr.split("\n").slice(0, -2)).toEqual(lines);
    expect((await box.call(["run", "-q", ...args], env)).stderr).toBe("");
    expect((await box.call(["run", "--store", "local:", ...args], env)).stderr).not.toContain(
      "without --store",
    );
  });
});

describe("a client that is not installed", () => {
  /** A copy of the package in a place without clients. */
  const installed = (folder: string): string => {
    const place = join(box.dir, folder, "node_modules");
    cpSync(builtDir(), join(place, "holdfast", "dist"), { recursive: true });
    for (const file of ["package.json", "node_modules/commander"]) {
      const to = file === "package.json" ? "holdfast/package.json" : "commander";
      cpSync(join(import.meta.dirname, "..", "..", file), join(place, to), { recursive: true });
    }
    return join(place, "holdfast", "dist", "cli", "main.js");
  };
  const complaint = async (main: string): Promise<string> =>
    (await box.spawn(process.execPath, [main, "ls", "--store", "postgres://127.0.0.1:1/x"]).ended).stderr;

  it("is to be installed where the command is: globally, or in the project", async () => {
    expect(await complaint(installed("lib"))).toMatch(/needs a client: npm i -g pg\n$/);
    const main = installed("project");
    writeFileSync(join(box.dir, "project", "package.json"), "{}");
    expect(await complaint(main)).toMatch(/needs a client: npm i pg\n$/);
  });
});

describe("help", () => {
  it("shows examples and exit codes", async () => {
    const { code, stdout, stderr } = await box.call(["--help"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(/holdfast run nightly -- /);
    expect(stdout).toMatch(/75 busy; 79 lease lost/);
  });

  it("of run names every option", async () => {
    const { code, stdout } = await box.call(["run", "--help"]);
    expect(code).toBe(0);
    const options = [
      "--store",
      "-w, --wait",
      "-n, --no-wait",
      "--ttl",
      "--shared",
      "--limit",
      "--at-least",
      "--label",
    ];
    for (const option of [...options, "--on-lost", "--allow", "-E, --busy-code", "--json", "-q, --quiet"]) {
      expect(stdout).toContain(option);
    }
  });

  it("of the version is the package's", async () => {
    expect((await box.call(["--version"])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });
});
