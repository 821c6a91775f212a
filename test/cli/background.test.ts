// What COMMAND has started belongs to it: the key is kept until it has ended, and a lost lease ends it too.

import { appendFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { alive, type Running, Sandbox, until } from "./fixture.ts";

let box: Sandbox;
beforeEach(() => void (box = new Sandbox()));
afterEach(async () => {
  // What a failed test has left in the background ends.
  await box.spawn("touch", ["end"]).ended;
  await box.close();
});

/** Runs on in the background until `end` exists. */
const BACKGROUND = "(until [ -e end ]; do sleep 0.02; done) >/dev/null 2>&1 & echo pid $!";

async function startedBackground(running: Running): Promise<number> {
  return Number((await running.says(/pid (\d+)/))[1]);
}

describe("what COMMAND leaves in the background", () => {
  it("keeps the key until it ends, which is said (P1)", async () => {
    const first = box.start(["run", "k", "--", "sh", "-c", `${BACKGROUND}; exit 3`]);
    const pid = await startedBackground(first);
    const [, shown] = await first.says(
      // The `sleep` of the loop may be there as well.
      /^holdfast: k: COMMAND has ended, but .* that it started runs? on \((?:sleep \d+, )?sh (\d+)/,
      "stderr",
    );
    expect(Number(shown)).toBe(pid);
    expect((await box.call(["run", "-n", "k", "--", "true"])).code).toBe(75);
    await box.spawn("touch", ["end"]).ended;
    expect((await first.ended).code).toBe(3);
    expect(alive(pid)).toBe(false);
    expect((await box.call(["ls"])).stdout).toBe("");
  });

  it("gets the signals that are sent to the command", async () => {
    const first = box.start(["run", "k", "--", "sh", "-c", BACKGROUND]);
    const pid = await startedBackground(first);
    await first.says(/runs? on/, "stderr");
    first.kill("SIGTERM");
    expect((await first.ended).code).toBe(0);
    expect(alive(pid)).toBe(false);
  });

  it("is nobody's business if it has a session of its own, as a daemon has", async () => {
    const daemon = `setsid sh -c 'echo pid $$; exec >/dev/null 2>&1; until [ -e end ]; do sleep 0.02; done' &
      until [ -e began ]; do sleep 0.02; done`;
    const first = box.start(["run", "k", "--", "sh", "-c", daemon]);
    const pid = await startedBackground(first);
    await box.spawn("touch", ["began"]).ended;
    // The pipes of the daemon are closed, so the end of the command is the end of its output.
    expect(await first.ended).toMatchObject({ code: 0, stderr: "" });
    expect(alive(pid)).toBe(true);
    await box.spawn("touch", ["end"]).ended;
    expect(await until(() => !alive(pid))).toBe(true);
  });
});

describe("as process 1 of a container", () => {
  // Root needs no user namespace; others may be forbidden to make one, and then the kernel's refusal is
  // what is seen.
  const unshare = [...(process.geteuid?.() === 0 ? [] : ["-Ur"]), "-pf", "--mount-proc", "--kill-child"];

  it("it says that it reaps no orphans, and zombies do not keep the key", async () => {
    const orphan = ["sh", "-c", "(sleep 0.5 &); exit 4"];
    const line = [...unshare, process.execPath, box.main, "run", "k", "--", ...orphan];
    const { code, stderr } = await box.spawn("unshare", line, { HOLDFAST_STORE: box.store }).ended;
    if (/unshare failed|Operation not permitted/.test(stderr)) return;
    expect(stderr).toMatch(/^holdfast: k: holdfast is process 1 here and reaps no orphans/);
    expect(code).toBe(4);
  });
});

describe("at a terminal", () => {
  const atTerminal = (args: readonly string[], script: string): Running => {
    const quoted = [process.execPath, box.main, "run", ...args, "k", "--", "sh", "-c", script].map(
      (arg) => `'${arg.replaceAll("'", "'\\''")}'`,
    );
    const line = `echo wrapper $$; exec ${quoted.join(" ")}`;
    return box.spawn("script", ["-qefc", line, "/dev/null"], { HOLDFAST_STORE: box.store, SHELL: "/bin/sh" });
  };
  /**
   * A child of COMMAND, and one whose parent has ended: neither listens to SIGTERM or to the end of the
   * terminal.
   */
  const TREE = `trap '' TERM HUP
    (until [ -e end ]; do sleep 0.02; done) & echo "one $!."
    ( (until [ -e end ]; do sleep 0.02; done) & echo "two $!." )
    wait`;

  const tree = async (terminal: Running): Promise<readonly number[]> => [
    Number((await terminal.says(/one (\d+)\./))[1]),
    Number((await terminal.says(/two (\d+)\./))[1]),
  ];

  it("a lost lease ends the children of COMMAND too (P1)", async () => {
    const terminal = atTerminal(["--ttl", "3s"], TREE);
    const pids = await tree(terminal);
    const [log] = readdirSync(box.file("store"), { recursive: true, encoding: "utf8" }).filter((name) =>
      /\/log\.\d+$/.test(name),
    );
    appendFileSync(join(box.file("store"), log as string), `\n${"0".repeat(80)}\n`);
    expect((await terminal.ended).code).toBe(79);
    for (const pid of pids) expect(alive(pid)).toBe(false);
  });

  it("so does the watchdog of a command that was killed (P1)", async () => {
    const terminal = atTerminal([], TREE);
    const pids = await tree(terminal);
    process.kill(Number((await terminal.says(/wrapper (\d+)/))[1]), "SIGKILL");
    expect(await until(() => pids.every((pid) => !alive(pid)))).toBe(true);
  });

  it("the key is kept until the children of COMMAND have ended", async () => {
    const terminal = atTerminal([], BACKGROUND);
    const pid = await startedBackground(terminal);
    await terminal.says(/COMMAND has ended, but .* that it started runs? on/);
    expect((await box.call(["run", "-n", "k", "--", "true"])).code).toBe(75);
    await box.spawn("touch", ["end"]).ended;
    expect((await terminal.ended).code).toBe(0);
    expect(alive(pid)).toBe(false);
  });
});
