// `holdfast run` on good days: who runs when, what the child gets, and which code it ends in.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { freePort } from "../../scripts/servers/ports.ts";
import { startRedis } from "../../scripts/servers/redis.ts";
import { createLocks, type Locks } from "../../src/index.ts";
import { Sandbox } from "./fixture.ts";

let box: Sandbox;
beforeEach(() => void (box = new Sandbox()));
afterEach(() => box.close());

const stamped = (name: string, seconds: number): string[] => [
  "sh",
  "-c",
  `echo ${name} in >>log; sleep ${seconds}; echo ${name} out >>log`,
];

describe("a server that is not there yet", () => {
  it("is waited for as long as --wait says, and -n ends in 69 without waiting", async () => {
    const port = await freePort();
    const store = ["--store", `redis://127.0.0.1:${port}`];
    const { code, stderr } = await box.run(["run", ...store, "-n", "k", "--", "true"]);
    expect(code).toBe(69);
    expect(stderr).toContain("ECONNREFUSED");
    const short = await box.run(["run", ...store, "--wait", "300ms", "k", "--", "true"]);
    expect(short.code).toBe(69);
    const waiting = box.start(["run", ...store, "--wait", "100s", "k", "--", "echo", "ran"]);
    await waiting.says(/waiting, but the store does not answer/, "stderr");
    const server = await startRedis({ own: true, port });
    try {
      expect(await waiting.ended).toMatchObject({ code: 0, stdout: "ran\n" });
    } finally {
      await server.stop();
    }
  });
});

describe("two at once", () => {
  it("run one after the other (P1)", async () => {
    const first = box.start(["run", "nightly", "--", "sleep", "0.5"]);
    const second = box.start(["run", "nightly", "--", "sleep", "0.5"]);
    const startedAtMs = performance.now();
    expect((await first.ended).code).toBe(0);
    expect((await second.ended).code).toBe(0);
    expect(performance.now() - startedAtMs).toBeGreaterThan(900);
  });

  it("never overlap, however many there are (P1)", async () => {
    const all = Array.from({ length: 5 }, (_, i) => box.run(["run", "k", "--", ...stamped(String(i), 0.1)]));
    for (const { code } of await Promise.all(all)) expect(code).toBe(0);
    const lines = box.read("log").trim().split("\n");
    expect(lines).toHaveLength(10);
    for (let i = 0; i < 10; i += 2) expect(lines[i + 1]).toBe(lines[i]?.replace("in", "out"));
  });

  it("share it when both say so, and keep out who does not", async () => {
    const first = box.start(["run", "--shared", "k", "--", "sh", "-c", "echo in; sleep 600"]);
    await first.says(/in/);
    expect((await box.run(["run", "-w", "60s", "--shared", "k", "--", "true"])).code).toBe(0);
    expect((await box.call(["run", "-n", "k", "--", "true"])).code).toBe(75);
  });

  it("may be two when the limit is two, and not three", async () => {
    const two = [0, 1].map(() =>
      box.start(["run", "--limit", "2", "k", "--", "sh", "-c", "echo in; sleep 600"]),
    );
    for (const one of two) await one.says(/in/);
    expect((await box.call(["run", "-n", "--limit", "2", "k", "--", "true"])).code).toBe(75);
  });

  it("do not meet on different keys", async () => {
    await box.start(["run", "a", "--", "sh", "-c", "echo in; sleep 600"]).says(/in/);
    expect((await box.run(["run", "-w", "60s", "b", "--", "true"])).code).toBe(0);
  });
});

describe("busy", () => {
  let locks: Locks;
  beforeEach(async () => {
    locks = createLocks(box.store);
    await locks.acquire("k", { label: "the first" });
  });
  afterEach(() => locks.close());

  it("ends in 75 at once with -n, and says who holds it", async () => {
    const ended = await box.call(["run", "-n", "k", "--", "touch", "ran"]);
    expect(ended).toMatchObject({ code: 75, stdout: "" });
    expect(ended.stderr).toMatch(
      /^holdfast: k: busy, held by "the first" for \d+(ms|\.\ds); gave up after \S+\n$/,
    );
    expect(box.leftOver().filter((line) => line.includes("ran"))).toEqual([]);
  });

  it("ends in 75 after the wait", async () => {
    const startedAtMs = performance.now();
    expect((await box.call(["run", "-w", "500ms", "k", "--", "true"])).code).toBe(75);
    expect(performance.now() - startedAtMs).toBeGreaterThan(500);
  });

  it("ends in the code that was asked for", async () => {
    expect((await box.call(["run", "-n", "-E", "3", "k", "--", "true"])).code).toBe(3);
    expect((await box.call(["run", "-n", "--busy-code=0", "k", "--", "true"])).code).toBe(0);
  });

  it("is silent with -q", async () => {
    expect(await box.call(["run", "-nq", "k", "--", "true"])).toMatchObject({ code: 75, stderr: "" });
  });

  it("is one object on stderr with --json", async () => {
    const { code, stdout, stderr } = await box.call(["run", "-n", "--json", "k", "--", "true"]);
    expect({ code, stdout }).toEqual({ code: 75, stdout: "" });
    expect(JSON.parse(stderr)).toMatchObject({
      key: "k",
      outcome: "busy",
      exitCode: 75,
      fence: null,
      heldMs: null,
      holders: [{ label: "the first", fence: expect.stringMatching(/^\d+$/) as string }],
    });
  });

  it("is mentioned once while it waits", async () => {
    const second = box.start(["run", "-w", "2500ms", "k", "--", "true"]);
    await second.says(/holdfast: k: waiting, held by "the first" for/, "stderr");
    expect((await second.ended).stderr.match(/waiting/g)).toHaveLength(1);
  });
});

describe("the child", () => {
  it("keeps its flags, its arguments and its streams", async () => {
    const args = ["-n", "--wait", "--", "a b", "", "--help", "*"];
    const print = ["sh", "-c", 'printf "<%s>" "$@"; echo oops >&2', "sh"];
    const ended = await box.run(["run", "k", "--", ...print, ...args]);
    expect(ended).toMatchObject({ code: 0, stderr: "oops\n" });
    expect(ended.stdout).toBe(args.map((arg) => `<${arg}>`).join(""));
  });

  it("learns key, fence and label", async () => {
    const show = ["sh", "-c", 'echo "$HOLDFAST_KEY|$HOLDFAST_FENCE|$HOLDFAST_LABEL|$OTHER"'];
    const first = await box.run(["run", "--label", "me & you", "a key", "--", ...show], { OTHER: "kept" });
    const second = await box.run(["run", "--label", "me & you", "a key", "--", ...show]);
    expect(first.stdout).toMatch(/^a key\|\d+\|me & you\|kept\n$/);
    const fence = (text: string): bigint => BigInt(text.split("|")[1] as string);
    expect(fence(second.stdout)).toBeGreaterThan(fence(first.stdout));
  });

  it("ends the command in its own code", async () => {
    for (const code of [75, 255]) {
      expect((await box.run(["run", "k", "--", "sh", "-c", `exit ${code}`])).code).toBe(code);
    }
  });

  it("that died by a signal ends it in 128 and the signal", async () => {
    expect((await box.run(["run", "k", "--", "sh", "-c", "kill -TERM $$"])).code).toBe(143);
    expect((await box.run(["run", "k", "--", "sh", "-c", "kill -KILL $$"])).code).toBe(137);
  });

  it("that is not there ends it in 127, one that cannot be executed in 126, and the key is free again", async () => {
    writeFileSync(join(box.dir, "plain"), "text");
    const missing = await box.run(["run", "k", "--", "no-such-command"]);
    expect(missing.code).toBe(127);
    expect(missing.stderr).toBe("holdfast: k: no-such-command cannot be started: not found\n");
    const plain = await box.run(["run", "k", "--", "./plain"]);
    expect(plain.code).toBe(126);
    expect(plain.stderr).toBe("holdfast: k: ./plain cannot be started: not executable\n");
    expect((await box.run(["run", "k", "--", box.dir])).code).toBe(126);
    expect((await box.call(["ls"])).stdout).toBe("");
  });

  it("runs in an empty environment", async () => {
    const bare = [
      "-i",
      process.execPath,
      box.main,
      "run",
      "--store",
      box.store,
      "k",
      "--",
      "sh",
      "-c",
      "echo ran",
    ];
    expect(await box.spawn("env", bare).ended).toMatchObject({ code: 0, stdout: "ran\n", stderr: "" });
  });

  it("has nothing of ours open but the lifeline", async () => {
    const look = ["sh", "-c", "ls -l /proc/$$/fd"];
    const open = (text: string): string[] =>
      [...text.matchAll(/ (\d+ -> .*)/g)].map((match) => match[1] as string);
    const inherited = open((await box.spawn("sh", look.slice(1)).ended).stdout);
    const child = open((await box.run(["run", "k", "--", ...look])).stdout);
    const ours = child.filter((fd) => !/^[012] /.test(fd) && !inherited.includes(fd));
    expect(ours).toEqual([expect.stringMatching(/^99 -> socket:/)]);
  });
});

describe("a run inside of COMMAND", () => {
  const nested = (...keys: string[]): string[] =>
    keys.flatMap((key) => [process.execPath, box.main, "run", "-w", "60", key, "--"]);

  it("of the same key would wait for itself, and is refused at once", async () => {
    const direct = await box.run(["run", "k", "--", ...nested("k"), "touch", "ran"]);
    expect(direct.code).toBe(75);
    expect(direct.stderr).toMatch(
      /^holdfast: k: this run is part of the COMMAND of another one .*own end\n$/,
    );
    const json = await box.run([
      "run",
      "a",
      "--",
      ...nested("b"),
      ...nested("a").toSpliced(3, 0, "--json"),
      "true",
    ]);
    expect(json.code).toBe(75);
    expect(JSON.parse(json.stderr)).toMatchObject({ outcome: "busy", error: { code: "ERR_LOCK_DEADLOCK" } });
    expect(box.leftOver().filter((line) => line.includes("ran"))).toEqual([]);
  });

  it("of another key runs, and so does one that has outlived the run around it", async () => {
    const { code, stdout } = await box.run(["run", "k", "--", ...nested("j"), "printenv", "HOLDFAST_HELD"]);
    expect(code).toBe(0);
    expect((await box.run(["run", "k", "--", "true"], { HOLDFAST_HELD: stdout.trim() })).code).toBe(0);
  });
});

describe("afterwards", () => {
  it("nothing is left: no watchdog, no file of the process, no held key (P16)", async () => {
    await box.run(["run", "k", "--", "sh", "-c", "exit 3"]);
    expect(box.leftOver()).toEqual([]);
    expect((await box.call(["ls"])).stdout).toBe("");
  });

  it("--json tells how it went", async () => {
    const { stdout, stderr } = await box.run([
      "run",
      "--json",
      "--label",
      "me",
      "k",
      "--",
      "sh",
      "-c",
      "echo out; exit 3",
    ]);
    expect(stdout).toBe("out\n");
    expect(stderr.trim().split("\n")).toHaveLength(1);
    expect(JSON.parse(stderr)).toEqual({
      key: "k",
      outcome: "ended",
      exitCode: 3,
      label: "me",
      fence: expect.stringMatching(/^\d+$/) as string,
      waitedMs: expect.any(Number) as number,
      heldMs: expect.any(Number) as number,
      signal: null,
      reason: null,
      detail: null,
      error: null,
      holders: [],
    });
  });

  it("--at-least keeps the key taken until its time is over", async () => {
    // Long enough for the second one to come in time, on a machine that takes seconds to start a process too.
    expect((await box.run(["run", "--at-least", "8s", "tick", "--", "true"])).code).toBe(0);
    const again = await box.call(["run", "-n", "--at-least", "8s", "tick", "--", "true"]);
    expect(again.code).toBe(75);
    expect(again.stderr).toMatch(/^holdfast: tick: busy, held by .*\n$/);
    expect(
      (await box.run(["run", "-w", "60s", "--at-least", "1s", "tick", "--", "sh", "-c", "exit 4"])).code,
    ).toBe(4);
  });
});
