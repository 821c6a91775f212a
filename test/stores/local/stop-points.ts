// A process that is stopped or killed at one call of the file system, beside a store that must not notice: its
// keys are free within ttl + grace, no two holders overlap, and fences grow.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect } from "vitest";
import type { OpenStore } from "../../../src/core/store.ts";
import { nodeSystem } from "../../../src/system/node.ts";
import { StallMeter } from "../../../src/testing/stall-meter.ts";
import { bundledChildForAll } from "../../support/bundled-child.ts";
import { actor, type Child, freshDir, grantOf, openIn, plainIo, request, waitFor } from "./fixture.ts";

export interface StopPoint {
  /** The child makes the folder itself. Otherwise another store is open already. */
  readonly isFirst: boolean;
  readonly when: "before" | "after";
  readonly signal: "SIGSTOP" | "SIGKILL";
  readonly at: number;
}

interface Section {
  readonly fence: bigint;
  readonly answeredMs: number;
  readonly endMs: number;
}

/** Of the child, and how long the machine may take beyond it. */
const TTL_AND_GRACE_MS = 500;
const SLACK_MS = 5_000;

/** How many calls of the file system the child makes when nobody stops it. */
export async function countCalls(isFirst: boolean): Promise<number> {
  const dir = freshDir();
  const beside = isFirst ? null : await openIn(dir.path);
  const run = start(dir.path, { isFirst, when: "before", signal: "SIGKILL", at: 0 });
  await run.ended;
  await beside?.close();
  dir.remove();
  expect(run.calls()).toBeGreaterThan(60);
  return run.calls();
}

/**
 * Runs the child up to the stop point, and checks that others go on. Returns how long they waited for its key, or
 * null if the child made fewer calls this time.
 */
export async function checkStopPoint(point: StopPoint): Promise<number | null> {
  const dir = freshDir();
  const beside = point.isFirst ? null : await openIn(dir.path);
  const run = start(dir.path, point);
  let store = beside;
  try {
    await Promise.race([run.ended, point.signal === "SIGKILL" ? run.ended : isStopped(run.pid)]);
    if (run.calls() > 0) return null;
    store ??= await openIn(dir.path);
    await grantOf(store, request("other"));
    const meter = new StallMeter();
    const own = [await oneSection(store)];
    const waitedMs = meter.workingMs();
    expect(waitedMs, JSON.stringify(point)).toBeLessThan(TTL_AND_GRACE_MS + SLACK_MS);
    if (point.signal === "SIGSTOP") {
      process.kill(run.pid, "SIGCONT");
      own.push(await oneSection(store));
      await run.ended;
      expect(run.calls(), JSON.stringify(point)).toBeGreaterThan(0);
    }
    expectApart([...own, ...run.sections()], point);
    const late = await openIn(dir.path);
    await grantOf(late, request("k"));
    await late.close();
    return waitedMs;
  } finally {
    await run.kill();
    await store?.close();
    dir.remove();
  }
}

async function oneSection(store: OpenStore): Promise<Section> {
  const asked = request("k");
  const { fences } = await waitFor(store, asked);
  const answeredMs = nodeSystem.monoMs();
  await plainIo().sleep(1);
  const endMs = nodeSystem.monoMs();
  await store.release(asked, null, { lastFences: fences }, plainIo());
  return { fence: fences[0] as bigint, answeredMs, endMs };
}

function expectApart(sections: readonly Section[], point: StopPoint): void {
  const inOrder = sections.toSorted((a, b) => a.answeredMs - b.answeredMs);
  for (const [i, section] of inOrder.entries()) {
    const before = inOrder[i - 1];
    if (before === undefined) continue;
    expect(section.answeredMs, JSON.stringify(point)).toBeGreaterThanOrEqual(before.endMs);
    expect(section.fence, JSON.stringify(point)).toBeGreaterThan(before.fence);
  }
}

/**
 * Stops or kills a process that takes and frees a key in a tight loop, at a random moment. Others must get the key
 * within ttl + grace. Returns how long they waited at most.
 */
export async function checkRandomStops(
  signal: "SIGSTOP" | "SIGKILL",
  rounds: number,
): Promise<{ readonly longestMs: number; readonly rounds: number }> {
  const dir = freshDir();
  const store = await openIn(dir.path);
  let spinner: Child | null = null;
  let longestMs = 0;
  let done = 0;
  try {
    for (; done < rounds; done += 1) {
      if (spinner === null) {
        spinner = await actor(dir.path);
        spinner.say(JSON.stringify(["spin", "k", "3600000", "400"]));
        await expect
          .poll(() => store.inspect("k", plainIo()), { timeout: 60_000, interval: 1 })
          .not.toBeNull();
      }
      await plainIo().sleep(nodeSystem.random() * 20);
      process.kill(spinner.pid, signal);
      const meter = new StallMeter();
      await oneSection(store);
      longestMs = Math.max(longestMs, meter.workingMs());
      expect(longestMs).toBeLessThan(TTL_AND_GRACE_MS + SLACK_MS);
      if (signal === "SIGSTOP") process.kill(spinner.pid, "SIGCONT");
      else {
        await spinner.end();
        spinner = null;
      }
    }
  } finally {
    await spinner?.end();
    await store.close();
    dir.remove();
  }
  return { longestMs, rounds: done };
}

interface Run {
  readonly pid: number;
  readonly ended: Promise<unknown>;
  calls(): number;
  sections(): Section[];
  kill(): Promise<void>;
}

function start(dir: string, point: StopPoint): Run {
  const args = [
    bundledChildForAll(join(import.meta.dirname, "children", "stopper.ts")),
    dir,
    point.when,
    point.signal,
    String(point.at),
  ];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  const lines: Record<string, string | number>[] = [];
  const output = createInterface(child.stdout);
  output.on("line", (line) => lines.push(JSON.parse(line) as Record<string, string | number>));
  const ended = Promise.all([once(child, "exit"), once(output, "close")]);
  return {
    pid: child.pid as number,
    ended,
    calls: () => Number(lines.find((line) => "calls" in line)?.["calls"] ?? 0),
    sections: () =>
      lines
        .filter((line) => "fence" in line)
        .map((line) => ({
          fence: BigInt(line["fence"] as string),
          answeredMs: Number(line["answeredMs"]),
          endMs: Number(line["endMs"]),
        })),
    async kill() {
      child.kill("SIGKILL");
      await ended;
    },
  };
}

async function isStopped(pid: number): Promise<void> {
  for (;;) {
    const state = existsSync(`/proc/${pid}`) ? readFileSync(`/proc/${pid}/stat`, "latin1") : ") T";
    if (/^[Tt]$/.test(state.slice(state.lastIndexOf(")") + 2)[0] ?? "")) return;
    await plainIo().sleep(2);
  }
}
