// `holdfast ls` and `holdfast inspect`: what they show of held, shared, kept and waited-for keys, as words
// and as JSON.

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createLocks, type Locks } from "../../src/index.ts";
import { Sandbox, until } from "./fixture.ts";

let box: Sandbox;
let locks: Locks;
beforeEach(() => {
  box = new Sandbox();
  locks = createLocks(box.store);
});
afterEach(async () => {
  await locks.close();
  await box.close();
});

const DIGITS = expect.stringMatching(/^\d+$/) as string;
const NUMBER = expect.any(Number) as number;

describe("ls", () => {
  it("of nothing is empty and no error", async () => {
    expect(await box.call(["ls"])).toMatchObject({ code: 0, stdout: "", stderr: "" });
    expect(await box.call(["ls", "--json"])).toMatchObject({ code: 0, stdout: "", stderr: "" });
  });

  it("has a line per key with what matters", async () => {
    const lease = await locks.acquire("phone:139", { label: "dialler" });
    await locks.acquire("read", { mode: "shared", label: "a b" });
    await locks.acquire("read", { mode: "shared", label: "other" });
    await locks.acquire("sema", { limit: 3, permits: 2 });
    await locks.once("tick", { atLeast: "1m", label: "cron" }, () => {});
    const waiting = box.start(["run", "phone:139", "--", "true"]);
    await until(async () => (await locks.inspect("phone:139"))?.waiters?.length === 1);
    const { code, stdout } = await box.call(["ls"]);
    expect(code).toBe(0);
    const rows = stdout
      .trim()
      .split("\n")
      .map((line) => line.split(/ {2,}/));
    expect(rows[0]).toEqual(["KEY", "HOLDERS", "FENCE", "HELD", "LEFT", "WAITING", "LABEL"]);
    expect(
      rows.slice(1).map(([key, holders, , , , waiters, label]) => [key, holders, waiters, label]),
    ).toEqual([
      ["phone:139", "1", "1", "dialler"],
      ["read", "2 shared", "0", '"a b" and 1 more'],
      ["sema", "2/3", "0", expect.stringMatching(/:\d+$/)],
      ["tick", "kept", "0", "cron"],
    ]);
    expect(rows[1]?.[2]).toBe(String(lease.fence));
    await lease.release();
    expect((await waiting.ended).code).toBe(0);
  });

  it("is one object per line with --json, fences as decimal strings", async () => {
    await locks.acquire("a", { label: "me" });
    await locks.acquire("b");
    const { stdout } = await box.call(["ls", "--json"]);
    const all = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { key: string });
    expect(all.map(({ key }) => key).sort()).toEqual(["a", "b"]);
    expect(all.find(({ key }) => key === "a")).toEqual({
      key: "a",
      free: false,
      limit: 1,
      holders: [
        {
          label: "me",
          mode: "exclusive",
          permits: 1,
          fence: DIGITS,
          heldMs: NUMBER,
          remainingMs: NUMBER,
          kept: false,
          waitingFor: null,
          revoked: null,
        },
      ],
      waiters: [],
    });
  });

  it("can be narrowed", async () => {
    for (const key of ["a:1", "a:2", "b:1"]) await locks.acquire(key);
    const keys = async (...args: string[]): Promise<string[]> =>
      (await box.call(["ls", ...args])).stdout
        .split("\n")
        .slice(1, -1)
        .map((line) => line.split(" ")[0] as string);
    expect(await keys("--prefix", "a:")).toEqual(["a:1", "a:2"]);
    expect(await keys("--limit", "2")).toHaveLength(2);
  });

  it("shows no control character of a key or label as such", async () => {
    await locks.acquire("two\nlines \u001b[31m", { label: "bell\u0007" });
    const { stdout } = await box.call(["ls"]);
    expect(stdout.trim().split("\n")).toHaveLength(2);
    expect(stdout).toContain(String.raw`"two\u{a}lines \u{1b}[31m"`);
    expect(stdout).toContain(String.raw`"bell\u{7}"`);
  });

  it("survives a reader that goes away", async () => {
    for (let i = 0; i < 50; i += 1) await locks.acquire(`key ${i}`);
    const line = `"${process.execPath}" "${box.main}" ls --json | head -n 1`;
    const ended = await box.spawn("sh", ["-c", line], { HOLDFAST_STORE: box.store }).ended;
    expect(ended).toMatchObject({ code: 0, stderr: "" });
  });
});

describe("inspect", () => {
  it("of a free key says so", async () => {
    expect(await box.call(["inspect", "a key"])).toMatchObject({
      code: 0,
      stdout: '"a key" is free\n',
      stderr: "",
    });
    const { code, stdout } = await box.call(["inspect", "--json", "k"]);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({ key: "k", free: true, limit: null, holders: [], waiters: [] });
  });

  it("shows holders and waiters", async () => {
    const lease = await locks.acquire("k", { label: "dialler" });
    const waiting = locks.acquire("k", { wait: "100s", label: "next", mode: "shared" });
    await until(async () => (await locks.inspect("k"))?.waiters?.length === 1);
    const lines = (await box.call(["inspect", "k"])).stdout.split("\n");
    expect(lines[0]).toBe("k: 1 holding, 1 waiting");
    expect(lines[1]).toMatch(new RegExp(`^  held by dialler for \\S+, \\S+ left, fence ${lease.fence}$`));
    expect(lines[2]).toMatch(/^ {2}waiting: next for \S+, shared$/);
    const json = JSON.parse((await box.call(["inspect", "--json", "k"])).stdout) as unknown;
    expect(json).toMatchObject({
      key: "k",
      free: false,
      limit: 1,
      holders: [{ label: "dialler", fence: String(lease.fence) }],
      waiters: [{ label: "next", mode: "shared", permits: 1, waitedMs: NUMBER }],
    });
    await lease.release();
    await (await waiting).release();
  });

  it("says what a semaphore holds and that a key is only kept", async () => {
    await locks.acquire("sema", { limit: 3, permits: 2, label: "two" });
    expect((await box.call(["inspect", "sema"])).stdout).toMatch(
      /^sema \(a semaphore of 3\): 1 holding, 0 waiting\n {2}held by two .*, 2 permits\n$/,
    );
    await locks.once("tick", { atLeast: "1m", label: "cron" }, () => {});
    expect((await box.call(["inspect", "tick"])).stdout).toMatch(
      /held by cron .*, kept by --at-least, its command has ended\n$/,
    );
  });
});
