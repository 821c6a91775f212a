// Keys, labels and reasons that are hostile to a terminal, a shell or a parser of options, through the
// command as people have it.

import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createLocks, type Locks } from "../../src/index.ts";
import { Sandbox } from "./fixture.ts";
import { runs } from "../support/histories-count.ts";
import { anyText } from "../support/any-text.ts";

let box: Sandbox;
let locks: Locks;

beforeAll(() => {
  box = new Sandbox();
  locks = createLocks(box.store);
});

afterAll(async () => {
  await locks.close();
  await box.close();
});

/** What ends well, and what is told; never a crash (70) and never a signal. */
const CODES = [0, 1, 3, 64, 69, 75];
/** A line break ends a line of ours; nothing else of the kind may reach a terminal. */
const ACTED_ON = /(?!\n)[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]/u;

const hostile = fc.oneof(
  fc.constantFrom(
    "-",
    "--",
    "-n",
    "--store",
    "--help",
    "-v",
    "--=",
    "$(touch ran)",
    "`touch ran`",
    "; touch ran",
    "a\nb",
    "\r",
    "*",
    "~",
  ),
  fc.constantFrom(
    "\u001b[2J\u001b]0;title\u0007",
    "\u009b31m",
    "\u202egnirts",
    "\u2028",
    "e\u0301",
    "\ud83d\ude00",
    "x".repeat(4_096),
    "x".repeat(100_000),
  ),
  // An argument of a process cannot hold a zero.
  anyText({ maxLength: 40 }).filter((text) => !text.includes("\0") && text.isWellFormed()),
);

describe("the command", () => {
  it("takes any text for a key, label or reason, or says why not, and prints nothing that a terminal would act on", async () => {
    const call = fc.oneof(
      hostile.map((text) => ["run", text, "--", "true"]),
      hostile.map((text) => ["run", "--", text, "--", "true"]),
      hostile.map((text) => ["run", "--label", text, "k", "--", "true"]),
      hostile.map((text) => ["inspect", text]),
      hostile.map((text) => ["ls", text]),
      hostile.map((text) => ["revoke", "--reason", text, "k"]),
      hostile.map((text) => [text]),
    );
    await fc.assert(
      fc.asyncProperty(call, async (args) => {
        const { code, signal, stdout, stderr } = await box.run(args);
        expect({ code, signal }, stderr).toEqual({ code: expect.toBeOneOf(CODES) as number, signal: null });
        expect(stdout + stderr).not.toMatch(ACTED_ON);
        expect(box.read("ran")).toBe("");
      }),
      runs(12),
    );
  });

  it("shows what others hold without letting their words act on the terminal", async () => {
    const words = "\u001b[2J\u0007evil\n\u009b31m\u202e\0";
    const lease = await locks.acquire(`key ${words}`, { label: `label ${words}` });
    const waiting = locks.acquire(`key ${words}`, { label: `waiter ${words}`, wait: 100_000 });
    for (const args of [["ls"], ["ls", "--json"], ["doctor"]]) {
      const { stdout, stderr } = await box.run(args);
      expect(stdout + stderr, args.join(" ")).not.toMatch(ACTED_ON);
    }
    await lease.release();
    await (await waiting).release();
  });
});
