// `npm run demo`: the race is real without the lock, gone with it, and nothing is left behind.

import { readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { builtDir } from "../support/built.ts";
import { Sandbox, until } from "./fixture.ts";

let box: Sandbox;
beforeEach(() => void (box = new Sandbox()));
afterEach(() => box.close());

const folders = (): string[] => readdirSync(tmpdir()).filter((name) => name.startsWith("holdfast-demo-"));

describe("the demo", () => {
  it("collides without a lock, never with it, and cleans up", async () => {
    const before = folders();
    const { code, stdout, stderr } = await box.spawn(process.execPath, [
      join(builtDir(), "demo", "main.js"),
      "2s",
    ]).ended;
    expect({ code, stderr }, stdout).toEqual({ code: 0, stderr: "" });
    const row = (title: string): string[] =>
      (stdout.split("\n").findLast((line) => line.startsWith(title)) ?? "")
        .slice(title.length)
        .trim()
        .split(/ {2,}/);
    expect(Number(row("without a lock").at(-1))).toBeGreaterThan(0);
    expect(row("with holdfast").at(-1)).toBe("0");
    expect(Number(row("with holdfast")[1])).toBeGreaterThan(0);
    expect(folders()).toEqual(before);
    expect(await until(() => box.leftOver().length === 0)).toBe(true);
  });

  it("stops when told to, with nothing left", async () => {
    const before = folders();
    const demo = box.spawn(process.execPath, [join(builtDir(), "demo", "main.js"), "30s"]);
    await until(() => folders().length > before.length);
    await until(() => box.leftOver().length > 1);
    demo.kill("SIGINT");
    expect((await demo.ended).code).toBe(130);
    expect(folders()).toEqual(before);
    expect(await until(() => box.leftOver().length === 0)).toBe(true);
  });
});
