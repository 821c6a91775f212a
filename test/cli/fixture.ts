// The command as its users have it: real processes of the compiled program, each test with a store of its
// own. Whatever a test has started is gone when the test is over.

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFailed } from "vitest";
import { holdfast } from "../../src/cli/command.ts";
import { builtDir } from "../support/built.ts";

export interface Ended {
  readonly code: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
}

export class Running {
  readonly pid: number;
  readonly ended: Promise<Ended>;
  stdout = "";
  stderr = "";
  readonly #child: ChildProcess;

  constructor(child: ChildProcess) {
    this.#child = child;
    this.pid = child.pid as number;
    child.stdout?.on("data", (chunk) => (this.stdout += String(chunk)));
    child.stderr?.on("data", (chunk) => (this.stderr += String(chunk)));
    this.ended = new Promise((resolve) => {
      child.once("close", (code, signal) =>
        resolve({ code, signal, stdout: this.stdout, stderr: this.stderr }),
      );
    });
  }

  /** Waits until its output fits. */
  async says(pattern: RegExp, from: "stdout" | "stderr" = "stdout"): Promise<RegExpExecArray> {
    const found = await until(() => pattern.exec(this[from]));
    if (found) return found;
    throw new Error(`${from} never fitted ${pattern}: ${this.stdout}\n${this.stderr}`);
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }
}

export class Sandbox {
  readonly dir: string = mkdtempSync(join(tmpdir(), "hf-cli-"));
  readonly store: string = `local:${join(this.dir, "store")}`;
  readonly main: string = join(builtDir(), "cli", "main.js");
  readonly #running: Running[] = [];
  readonly #said: string[] = [];

  constructor() {
    // Where a whole file shares the sandbox, no test is under way.
    if (expect.getState().currentTestName === undefined) return;
    onTestFailed(({ task }) => {
      for (const error of task.result?.errors ?? [])
        error.stack = `${error.stack ?? error.message}\n${this.#said.join("\n")}`;
    });
  }

  file(name: string): string {
    return join(this.dir, name);
  }

  read(name: string): string {
    return existsSync(this.file(name)) ? readFileSync(this.file(name), "utf8") : "";
  }

  start(args: readonly string[], env: Readonly<Record<string, string | undefined>> = {}): Running {
    return this.spawn(process.execPath, [this.main, ...args], { HOLDFAST_STORE: this.store, ...env });
  }

  /** stdin is not a terminal here; see `script(1)` in the tests of signals for one that is. */
  spawn(
    file: string,
    args: readonly string[],
    env: Readonly<Record<string, string | undefined>> = {},
  ): Running {
    const child = spawn(file, args, {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, ...env },
      cwd: this.dir,
    });
    const running = new Running(child);
    this.#running.push(running);
    void running.ended.then((ended) => this.#note(args, ended));
    return running;
  }

  run(args: readonly string[], env: Readonly<Record<string, string | undefined>> = {}): Promise<Ended> {
    return this.start(args, env).ended;
  }

  /** The same inside of this process: for commands that start nothing, without the cost of a process. */
  async call(
    args: readonly string[],
    env: Readonly<Record<string, string | undefined>> = {},
  ): Promise<Ended> {
    const said = { stdout: "", stderr: "" };
    const undo = [
      ...(["stdout", "stderr"] as const).map((name) => captured(name, (chunk) => (said[name] += chunk))),
      ...Object.entries({ HOLDFAST_STORE: this.store, ...env }).map(([name, value]) =>
        setVariable(name, value),
      ),
      signalListeners(),
    ];
    try {
      const ended = { code: await holdfast(args), signal: null, ...said };
      this.#note(args, ended);
      return ended;
    } finally {
      for (const one of undo) one();
    }
  }

  #note(args: readonly string[], { code, signal, stderr }: Ended): void {
    this.#said.push(`${args.join(" ")}\n  ended with ${signal ?? code}: ${stderr.slice(0, 1_000)}`);
  }

  /** Processes that work in this sandbox, or have its paths in their command line. */
  leftOver(): string[] {
    const ours = processes().filter(({ cwd, cmdline }) => cwd === this.dir || cmdline.includes(this.dir));
    return ours.map(({ cmdline }) => cmdline);
  }

  async close(): Promise<void> {
    for (const running of this.#running) running.kill("SIGKILL");
    await Promise.all(
      this.#running.map((running) => Promise.race([running.ended, sleep(30_000, undefined, { ref: false })])),
    );
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** Passes on what is written there. Each of these returns how to undo it. */
function captured(name: "stdout" | "stderr", pass: (text: string) => void): () => void {
  const stream = process[name];
  const { write } = stream;
  stream.write = (chunk: string | Uint8Array): boolean => {
    pass(String(chunk));
    return true;
  };
  return () => void (stream.write = write);
}

function setVariable(name: string, value: string | undefined): () => void {
  const before = process.env[name];
  const set = (to: string | undefined): void => {
    if (to === undefined) delete process.env[name];
    else process.env[name] = to;
  };
  set(value);
  return () => set(before);
}

/** `run` listens to signals until its process ends. */
function signalListeners(): () => void {
  const before = new Map(process.eventNames().map((name) => [name, process.listeners(name as "SIGTERM")]));
  return () => {
    for (const name of process.eventNames().filter((one) => String(one).startsWith("SIG"))) {
      for (const listener of process.listeners(name as "SIGTERM")) {
        if (!before.get(name)?.includes(listener)) process.off(name, listener);
      }
    }
  };
}

export interface ProcessInfo {
  readonly pid: number;
  readonly cwd: string;
  readonly cmdline: string;
}

/** Every living process of this machine that we may look at. */
function processes(): ProcessInfo[] {
  const pids = readdirSync("/proc")
    .map(Number)
    .filter((pid) => pid > 0 && pid !== process.pid && alive(pid));
  return pids.map((pid) => ({ pid, cwd: workingDir(pid), cmdline: text(pid, "cmdline") }));
}

function workingDir(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return "";
  }
}

function text(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, "utf8").replaceAll("\0", " ");
  } catch {
    return "";
  }
}

/** A zombie is dead: only its parent has not looked yet. */
export function alive(pid: number): boolean {
  const stat = text(pid, "stat");
  return stat !== "" && !/^[ZX]/.test(stat.slice(stat.lastIndexOf(")") + 2));
}

/** Ends a wait for what never comes. A busy machine takes seconds to start a process. */
const LONGEST_WAIT_MS = 100_000;

/** Looks every few milliseconds until there is something to see. */
export async function until<T>(look: () => T | Promise<T>, withinMs: number = LONGEST_WAIT_MS): Promise<T> {
  for (const endMs = performance.now() + withinMs; ; await sleep(5)) {
    const seen = await look();
    if (seen || performance.now() > endMs) return seen;
  }
}
