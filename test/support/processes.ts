// Processes as these tests watch them.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

/** `npm run servers -- ...` without npm in between. */
export function command(...args: string[]): ChildProcess {
  const { HOLDFAST_TEST_REDIS: _given, ...env } = process.env;
  const node = ["--import", "tsx", "scripts/servers.ts", ...args];
  return spawn(process.execPath, node, { env, stdio: ["ignore", "pipe", "inherit"] });
}

export async function firstLine(child: ChildProcess): Promise<string> {
  let text = "";
  while (!text.includes("\n")) text += String((await once(child.stdout!, "data"))[0]);
  return text.slice(0, text.indexOf("\n"));
}

/** A zombie is dead: it only waits for an init process that may take its time. */
export function alive(pid: number | null): boolean {
  try {
    return !/^State:\s*[ZX]/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

/** After SIGSTOP the threads of a process go on for a moment, until the kernel has stopped each of them. */
export async function stopped(pid: number): Promise<void> {
  const threads = readdirSync(`/proc/${pid}/task`);
  await until(() =>
    threads.every((id) => /^State:\s*T/m.test(readFileSync(`/proc/${pid}/task/${id}/status`, "utf8"))),
  );
}

export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 100_000;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error("it did not happen within 100 s");
    await sleep(20);
  }
}
