// One round of the race: starts the diallers, adds up what they tell, stops them in time. Ends with every process gone.

import { type ChildProcess, fork } from "node:child_process";
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Tally } from "./dialler.ts";
import { PhoneTable } from "./phone-table.ts";

export interface RoundPlan {
  readonly folder: string;
  /** Empty: without a lock. */
  readonly store: string;
  readonly processes: number;
  readonly ms: number;
  readonly signal: AbortSignal;
  readonly progress: (tally: Tally, elapsedMs: number) => void;
}

export interface RoundResult extends Tally {
  readonly seconds: number;
}

const PROGRESS_MS = 250;
/** A dialler that does not stop when told to is ended. */
const STOP_MS = 5_000;

export async function playRound(plan: RoundPlan): Promise<RoundResult> {
  new PhoneTable(plan.folder).create();
  const tallies = new Map<ChildProcess, Tally>();
  const children = Array.from({ length: plan.processes }, () => startDialler(plan, tallies));
  try {
    await Promise.race([all(children, "message"), failures(children)]);
    const startedAtMs = performance.now();
    const elapsedMs = (): number => performance.now() - startedAtMs;
    while (elapsedMs() < plan.ms && !plan.signal.aborted) {
      await sleep(Math.min(PROGRESS_MS, Math.max(1, plan.ms - elapsedMs())));
      plan.progress(sum(tallies), elapsedMs());
    }
    const gone = all(children, "exit");
    for (const child of children) child.send("stop");
    await Promise.race([gone, sleep(STOP_MS, undefined, { ref: false })]);
    const failed = children.find((child) => child.exitCode !== 0);
    if (failed !== undefined && !plan.signal.aborted) throw new Error("a dialler did not end well");
    return { ...sum(tallies), seconds: elapsedMs() / 1_000 };
  } finally {
    for (const child of children) child.kill("SIGKILL");
  }
}

function startDialler(plan: RoundPlan, tallies: Map<ChildProcess, Tally>): ChildProcess {
  const child = fork(diallerFile(), [plan.folder, plan.store], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  child.on("message", (tally) => tallies.set(child, tally as Tally));
  child.on("error", () => {});
  return child;
}

/** Beside this file, compiled or not. */
function diallerFile(): string {
  const compiled = fileURLToPath(new URL("dialler.js", import.meta.url));
  return existsSync(compiled) ? compiled : fileURLToPath(new URL("dialler.ts", import.meta.url));
}

async function all(children: readonly ChildProcess[], event: "message" | "exit"): Promise<void> {
  await Promise.all(children.map((child) => new Promise((resolve) => child.once(event, resolve))));
}

/** Rejects when a dialler ends before it has begun. */
function failures(children: readonly ChildProcess[]): Promise<never> {
  return new Promise((_resolve, reject) => {
    for (const child of children) {
      child.once("exit", (code) => reject(new Error(`a dialler ended at once with code ${code}`)));
    }
  });
}

function sum(tallies: ReadonlyMap<ChildProcess, Tally>): Tally {
  const total: Tally = { dials: 0, collisions: 0, longestWaitMs: 0 };
  for (const { dials, collisions, longestWaitMs } of tallies.values()) {
    total.dials += dials;
    total.collisions += collisions;
    total.longestWaitMs = Math.max(total.longestWaitMs, longestWaitMs);
  }
  return total;
}
