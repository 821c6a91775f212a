// The wrapper is killed with SIGKILL: its child is ended too, and the key is free when the child is gone,
// not before.

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { LIFELINE_FD } from "../../src/cli/descriptors.ts";
import { alive, Sandbox, until } from "./fixture.ts";
import { StallMeter } from "../../src/testing/stall-meter.ts";

const ROUNDS = 2;
/** What is promised. */
const SECOND_STARTS_MS = 1_000;

let box: Sandbox;
beforeEach(() => void (box = new Sandbox()));
afterEach(() => box.close());

/** Writes the time, over and over, until it is ended: the last line is how long it lived. */
const BEATS = "while :; do date +%s%N; sleep 0.01; done >>beats";
const NOW = "date +%s%N";

interface Killed {
  /** From the last beat of the child to the start of the next one. */
  readonly gapMs: number;
  /** How long the machine stalled meanwhile. */
  readonly stalledMs: number;
  readonly said: string;
}

async function killWhileSecondWaits(script: string): Promise<Killed> {
  const first = box.start(["run", "k", "--", "sh", "-c", `echo pid $$; ${script}`]);
  await first.says(/pid (\d+)/);
  const second = box.start(["run", "k", "--", "sh", "-c", NOW]);
  await until(async () => (await box.call(["inspect", "k"])).stdout.includes("1 waiting"));
  const meter = new StallMeter();
  first.kill("SIGKILL");
  const { code, stdout } = await second.ended;
  const stalledMs = meter.stalledMs();
  expect(code).toBe(0);
  const last = BigInt(box.read("beats").trim().split("\n").at(-1) as string);
  return { gapMs: Number(BigInt(stdout.trim()) - last) / 1e6, stalledMs, said: first.stdout };
}

describe("kill -9 of the wrapper", () => {
  it("ends the child, and the next one starts after that and soon, twice of two times (P1, P10)", async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const { gapMs, stalledMs } = await killWhileSecondWaits(BEATS);
      expect(gapMs).toBeGreaterThan(0);
      expect(gapMs - stalledMs).toBeLessThan(SECOND_STARTS_MS);
    }
    expect(await until(() => box.leftOver().length === 0)).toBe(true);
  });

  it("lets the child clean up, but not for long", async () => {
    const { gapMs, said } = await killWhileSecondWaits(
      `trap 'echo cleaning; date +%s%N >>beats; exit' TERM; while :; do date +%s%N >>beats; sleep 0.01; done`,
    );
    expect(said).toContain("cleaning");
    expect(gapMs).toBeGreaterThan(0);
    const deaf = await killWhileSecondWaits(`trap '' TERM; ${BEATS}`);
    expect(deaf.gapMs).toBeGreaterThan(0);
    expect(deaf.gapMs - deaf.stalledMs).toBeLessThan(SECOND_STARTS_MS);
  });

  it("ends what the child has started as well", async () => {
    const first = box.start([
      "run",
      "k",
      "--",
      "sh",
      "-c",
      "(trap '' TERM; while :; do sleep 1; done) & echo pid $!; wait",
    ]);
    const pid = Number((await first.says(/pid (\d+)/))[1]);
    first.kill("SIGKILL");
    expect(await until(() => !alive(pid))).toBe(true);
    expect((await box.run(["run", "-w", "60s", "k", "--", "true"])).code).toBe(0);
  });

  it("keeps the key for a child that has closed our descriptor, until it is ended", async () => {
    const { gapMs } = await killWhileSecondWaits(
      `exec bash -c 'exec ${LIFELINE_FD}>&-; trap "" TERM; ${BEATS}'`,
    );
    expect(gapMs).toBeGreaterThan(0);
  });

  it("while it waits leaves the line to the others", async () => {
    await box.start(["run", "k", "--", "sh", "-c", "echo in; sleep 4"]).says(/in/);
    const second = box.start(["run", "k", "--", "true"]);
    await second.says(/waiting/, "stderr");
    second.kill("SIGKILL");
    expect((await box.run(["run", "-w", "60s", "k", "--", "true"])).code).toBe(0);
  });
});
