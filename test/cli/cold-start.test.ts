// A command that is put before every job of a crontab must not be felt.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Sandbox } from "./command.ts";

const ROUNDS = 20;
/** On a busy machine the best of twenty may still be a bad one. */
const MOST_ROUNDS = 60;
const MOST_MS = 150;

let box: Sandbox;
beforeAll(() => void (box = new Sandbox()));
afterAll(() => box.close());

async function took(start: () => Promise<unknown>): Promise<number> {
  const startedAtMs = performance.now();
  await start();
  return performance.now() - startedAtMs;
}

describe("holdfast run", () => {
  it(`costs at most ${MOST_MS} ms more than a bare node`, async () => {
    // The best of each: what else the machine does at the time is not ours.
    let bareMs = Number.POSITIVE_INFINITY;
    let runMs = Number.POSITIVE_INFINITY;
    for (let round = 0; round < ROUNDS || (round < MOST_ROUNDS && runMs - bareMs >= MOST_MS); round += 1) {
      bareMs = Math.min(bareMs, await took(() => box.spawn(process.execPath, ["-e", "0"]).ended));
      runMs = Math.min(runMs, await took(() => box.run(["run", "k", "--", "true"])));
    }
    console.log(`bare node ${Math.round(bareMs)} ms, holdfast run ${Math.round(runMs)} ms`);
    expect(runMs - bareMs).toBeLessThan(MOST_MS);
  });
});
