// The lease goes while the child runs: the child is ended before the next holder starts, and the command
// ends in 79.

import { appendFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createLocks } from "../../src/index.ts";
import { alive, type Running, Sandbox, until } from "./fixture.ts";
import { StallMeter } from "../../src/testing/stall-meter.ts";

let box: Sandbox;
beforeEach(() => void (box = new Sandbox()));
afterEach(() => box.close());

const BEATS = "while :; do date +%s%N; sleep 0.01; done >>beats";

/** Damages the log, so that no renewal gets through. */
function blockStore(): void {
  const store = box.file("store");
  const logs = readdirSync(store, { recursive: true, encoding: "utf8" }).filter((name) =>
    /\/log\.\d+$/.test(name),
  );
  expect(logs).toHaveLength(1);
  appendFileSync(join(store, logs[0] as string), `\n${"0".repeat(80)}\n`);
}

async function started(args: readonly string[], script: string): Promise<{ wrapper: Running; pid: number }> {
  const wrapper = box.start(["run", ...args, "k", "--", "sh", "-c", `echo pid $$; ${script}`]);
  return { wrapper, pid: Number((await wrapper.says(/pid (\d+)/))[1]) };
}

describe("a wrapper that was stopped past its lease", () => {
  it("has no child any more when the next holder starts, and ends in 79 (P1)", async () => {
    const { wrapper, pid } = await started(["--ttl", "3s"], BEATS);
    const second = box.start(["run", "k", "--", "sh", "-c", "date +%s%N"]);
    await until(async () => (await box.call(["inspect", "k"])).stdout.includes("1 waiting"));
    wrapper.kill("SIGSTOP");
    const { code, stdout } = await second.ended;
    expect(code).toBe(0);
    const last = box.read("beats").trim().split("\n").at(-1) as string;
    expect(BigInt(stdout.trim())).toBeGreaterThan(BigInt(last));
    expect(alive(pid)).toBe(false);
    wrapper.kill("SIGCONT");
    const ended = await wrapper.ended;
    expect(ended.code).toBe(79);
    expect(ended.stderr).toMatch(/holdfast: k: the lease was lost/);
    expect(await until(() => box.leftOver().length === 0)).toBe(true);
  });

  it("and went on in time has lost nothing", async () => {
    const { wrapper } = await started(["--ttl", "10s"], "sleep 2; exit 5");
    wrapper.kill("SIGSTOP");
    await new Promise((resolve) => setTimeout(resolve, 500));
    wrapper.kill("SIGCONT");
    expect((await wrapper.ended).code).toBe(5);
  });
});

describe("a store that cannot be asked", () => {
  it("makes the child get SIGTERM in good time, and SIGKILL before the lease ends", async () => {
    const { wrapper, pid } = await started(
      ["--ttl", "2s"],
      "trap 'echo got TERM' TERM; while :; do sleep 0.05; done",
    );
    const meter = new StallMeter();
    blockStore();
    await wrapper.says(/got TERM/);
    expect(await until(() => !alive(pid))).toBe(true);
    // Two seconds of ttl and a tenth of it as grace: nobody else can have had the key before that.
    expect(meter.workingMs()).toBeLessThan(2_200);
    const { code, stderr } = await wrapper.ended;
    expect(code).toBe(79);
    expect(stderr).toMatch(/holdfast: k: the lease was not renewed and ends in \S+: COMMAND gets SIGTERM\n/);
  });

  it("a child that stops when told to has still not done its work: 79", async () => {
    const { wrapper } = await started(["--ttl", "2s"], "trap 'exit 0' TERM; while :; do sleep 0.05; done");
    blockStore();
    expect((await wrapper.ended).code).toBe(79);
  });

  it("with --on-lost kill there is no SIGTERM", async () => {
    const { wrapper } = await started(
      ["--ttl", "1s", "--on-lost", "kill", "--json"],
      "trap 'echo got TERM' TERM; while :; do sleep 0.05; done",
    );
    blockStore();
    const { code, stdout, stderr } = await wrapper.ended;
    expect(code).toBe(79);
    expect(stdout).not.toContain("got TERM");
    expect(JSON.parse(stderr)).toMatchObject({ outcome: "lost", exitCode: 79, signal: "SIGKILL" });
  });

  it("with --on-lost warn the child runs on, and it still ends in 79", async () => {
    const { wrapper } = await started(["--ttl", "500ms", "--on-lost", "warn"], "sleep 2; echo done");
    blockStore();
    const { code, stdout, stderr } = await wrapper.ended;
    expect(code).toBe(79);
    expect(stdout).toContain("done");
    expect(stderr).toMatch(/the lease was lost \(\w+\): COMMAND runs on without it/);
  });
});

describe("an operator who revokes the key", () => {
  it("makes COMMAND get SIGTERM first, and nobody gets the key before it has ended (P1)", async () => {
    const { wrapper } = await started(
      ["--json"],
      "trap 'echo got TERM; until [ -e end ]; do sleep 0.02; done; exit 0' TERM; while :; do sleep 0.1; done",
    );
    const locks = createLocks(box.store);
    try {
      expect(await locks.revoke("k", { reason: "a test" })).toBe(true);
      await wrapper.says(/got TERM/);
      expect(await locks.tryAcquire("k")).toBeNull();
      await box.spawn("touch", ["end"]).ended;
      const { code, stderr } = await wrapper.ended;
      expect(code).toBe(79);
      const told = { outcome: "lost", reason: "revoked", detail: "a test", signal: null, error: null };
      // The shell of COMMAND may write a line of its own before.
      expect(JSON.parse(stderr.trim().split("\n").at(-1) as string)).toMatchObject(told);
      expect(await locks.tryAcquire("k")).not.toBeNull();
    } finally {
      await locks.close();
    }
  });

  it("makes it get SIGKILL before the window ends, if it goes on", async () => {
    const { wrapper, pid } = await started(["--ttl", "2s"], "trap '' TERM; while :; do sleep 0.05; done");
    const locks = createLocks(box.store);
    try {
      expect(await locks.revoke("k", { reason: "a test" })).toBe(true);
      const next = await locks.acquire("k", { wait: "60s" });
      expect(alive(pid)).toBe(false);
      await next.release();
      const { code, stderr } = await wrapper.ended;
      expect(code).toBe(79);
      expect(stderr).toMatch(/lost \(revoked: a test\) and the key is free in \S+: COMMAND gets SIGTERM/);
    } finally {
      await locks.close();
    }
  });

  it("by force makes it get SIGKILL at once", async () => {
    const { wrapper } = await started(["--json"], "trap 'echo got TERM' TERM; while :; do sleep 0.05; done");
    const locks = createLocks(box.store);
    try {
      expect(await locks.revoke("k", { reason: "a test", force: true })).toBe(true);
      const { code, stdout, stderr } = await wrapper.ended;
      expect(code).toBe(79);
      expect(stdout).not.toContain("got TERM");
      expect(JSON.parse(stderr)).toMatchObject({ reason: "revoked", signal: "SIGKILL" });
    } finally {
      await locks.close();
    }
  });
});
