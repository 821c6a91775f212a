// Signals: before the child they end the wait, afterwards they are the child's. With and without a terminal.

import { constants } from "node:os";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createLocks, type Locks } from "../../src/index.ts";
import { alive, Sandbox, until } from "./fixture.ts";

let box: Sandbox;
beforeEach(() => void (box = new Sandbox()));
afterEach(() => box.close());

/** Says which signals it got, and ends when `end` exists. */
const listener = (signals: readonly string[]): string[] => [
  "sh",
  "-c",
  `${signals.map((name) => `trap 'echo got ${name}' ${name}`).join("; ")}; echo ready; until [ -e end ]; do sleep 0.02; done`,
];

describe("while it waits", () => {
  let locks: Locks;
  beforeEach(async () => {
    locks = createLocks(box.store);
    await locks.acquire("k");
  });
  afterEach(() => locks.close());

  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1"] as const) {
    it(`${signal} ends it in 128 and the signal, and it leaves the line`, async () => {
      const second = box.start(["run", "k", "--", "touch", "ran"]);
      await until(async () => (await box.call(["inspect", "k"])).stdout.includes("1 waiting"));
      await second.says(/waiting/, "stderr");
      second.kill(signal);
      const { code, stderr } = await second.ended;
      expect(code).toBe(128 + constants.signals[signal]);
      expect(stderr).toContain(`holdfast: k: stopped by ${signal} before COMMAND was started\n`);
      expect((await box.call(["inspect", "k"])).stdout).toContain("1 holding, 0 waiting");
    });
  }

  it("is told in JSON too", async () => {
    const second = box.start(["run", "--json", "k", "--", "true"]);
    await until(async () => (await box.call(["inspect", "k"])).stdout.includes("1 waiting"));
    second.kill("SIGTERM");
    expect(JSON.parse((await second.ended).stderr)).toMatchObject({
      outcome: "stopped",
      exitCode: 143,
      signal: "SIGTERM",
    });
  });
});

describe("without a terminal", () => {
  it("every signal that can be caught reaches the child", async () => {
    const names = [
      "HUP",
      "INT",
      "QUIT",
      "TERM",
      "USR1",
      "USR2",
      "ALRM",
      "WINCH",
      "TSTP",
      "CONT",
      "PWR",
      "IO",
      "URG",
    ];
    const wrapper = box.start(["run", "k", "--", ...listener(names)]);
    await wrapper.says(/ready/);
    for (const name of names) {
      wrapper.kill(`SIG${name}` as NodeJS.Signals);
      await wrapper.says(new RegExp(`got ${name}\\b`));
    }
    await box.spawn("touch", ["end"]).ended;
    expect((await wrapper.ended).code).toBe(0);
  });

  it("the child's whole group gets it, and the key is free when the child is gone", async () => {
    const tree = ["sh", "-c", "sleep 60 & echo pid $!; wait"];
    const wrapper = box.start(["run", "k", "--", ...tree]);
    const pid = Number((await wrapper.says(/pid (\d+)/))[1]);
    wrapper.kill("SIGTERM");
    expect((await wrapper.ended).code).toBe(143);
    expect(await until(() => !alive(pid))).toBe(true);
    expect((await box.call(["ls"])).stdout).toBe("");
    expect(box.leftOver()).toEqual([]);
  });

  it("a child that goes on after SIGTERM keeps the key", async () => {
    const wrapper = box.start(["run", "k", "--", ...listener(["TERM"])]);
    await wrapper.says(/ready/);
    wrapper.kill("SIGTERM");
    await wrapper.says(/got TERM/);
    expect((await box.call(["run", "-n", "k", "--", "true"])).code).toBe(75);
    await box.spawn("touch", ["end"]).ended;
    expect((await wrapper.ended).code).toBe(0);
  });
});

describe("at a terminal", () => {
  /** script(1) gives it one; the shell in between says which process the wrapper is. */
  const atTerminal = (command: readonly string[]): ReturnType<Sandbox["spawn"]> => {
    const quoted = [process.execPath, box.main, "run", "k", "--", ...command].map(
      (arg) => `'${arg.replaceAll("'", "'\\''")}'`,
    );
    const line = `echo wrapper $$; exec ${quoted.join(" ")}`;
    return box.spawn("script", ["-qefc", line, "/dev/null"], { HOLDFAST_STORE: box.store, SHELL: "/bin/sh" });
  };

  it("the child stays in the group of the wrapper, and is ended with it (P10)", async () => {
    const group = 'group $(cut -d " " -f 5 /proc/$$/stat)';
    const terminal = atTerminal(["sh", "-c", `echo "child $$ ${group}"; sleep 60`]);
    const wrapper = Number((await terminal.says(/wrapper (\d+)/))[1]);
    const [, child, ofChild] = (await terminal.says(/child (\d+) group +(\d+)/)).map(Number) as [
      number,
      number,
      number,
    ];
    expect(ofChild).toBe(wrapper);
    process.kill(wrapper, "SIGKILL");
    expect(await until(() => !alive(child))).toBe(true);
  });

  it("Ctrl-C is not passed on a second time, SIGTERM is", async () => {
    const terminal = atTerminal(listener(["INT", "TERM"]));
    const wrapper = Number((await terminal.says(/wrapper (\d+)/))[1]);
    await terminal.says(/ready/);
    process.kill(-wrapper, "SIGINT");
    await terminal.says(/got INT/);
    process.kill(wrapper, "SIGTERM");
    await terminal.says(/got TERM/);
    await box.spawn("touch", ["end"]).ended;
    expect((await terminal.ended).code).toBe(0);
    expect(terminal.stdout.match(/got INT/g)).toHaveLength(1);
  });
});
