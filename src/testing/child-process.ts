// The suite's handle of a child process: starts it, calls it, stops it and kills it.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { dirname } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Call, ChildSetup, Operation, Operations, Reply } from "./child-protocol.ts";
import { withTimeout } from "./io.ts";

// Long, because a busy machine takes seconds to start a process. They only end a case that hangs.
const REPLY_MS = 90_000;
const EXIT_MS = 60_000;

interface Waiting {
  resolve(gives: unknown): void;
  reject(error: unknown): void;
}

/** Runtimes for the children, used in turn: a JSON array of arrays with a program and its arguments. */
const RUNTIMES = JSON.parse(process.env["HOLDFAST_TEST_RUNTIMES"] ?? "[]") as readonly (readonly string[])[];
let started = 0;
let compiledChild: string | null = null;

/**
 * Sets the compiled program. The tests of this repository use it, because it starts in a third of the
 * time of the source.
 */
export function useCompiledChild(program: string): void {
  compiledChild = program;
}

/** The command of a child. The compiled program runs as it is, and the source needs a loader. */
function command({ store }: ChildSetup): { readonly program: string; readonly runtime: readonly string[] } {
  started += 1;
  const runtime = RUNTIMES[started % RUNTIMES.length];
  // The module of a store may itself need the loader.
  const compiled = "url" in store ? compiledChild : null;
  const isSource = compiled === null && import.meta.url.endsWith(".ts");
  const program = compiled ?? fileURLToPath(new URL(isSource ? "./child.ts" : "./child.js", import.meta.url));
  const loader = isSource ? ["--import", "tsx"] : [];
  const own = [process.execPath, ...("deno" in process.versions ? ["run", "-A"] : loader)];
  return { program, runtime: runtime ?? own };
}

/** An error of the child, with its code. */
class ChildError extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** A child process that takes locks. */
export class Child {
  readonly #process: ChildProcess;
  readonly #waiting = new Map<number, Waiting>();
  /** Resolves with the exit code or the signal. */
  readonly #ended: Promise<{ readonly code: number | null; readonly signal: string | null }>;
  #calls = 0;

  constructor(setup: ChildSetup) {
    const { program, runtime } = command(setup);
    const [file = "", ...args] = runtime;
    this.#process = spawn(file, [...args, program, JSON.stringify(setup)], {
      cwd: dirname(program),
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#process.stdin?.on("error", () => {});
    this.#ended = new Promise((resolve) => {
      this.#process.once("exit", (code, signal) => {
        resolve({ code, signal });
        for (const waiting of this.#waiting.values()) waiting.reject(new Error("the child process is gone"));
        this.#waiting.clear();
      });
    });
    createInterface({ input: this.#process.stdout as NodeJS.ReadableStream }).on("line", (line) =>
      this.#hear(line),
    );
  }

  get pid(): number {
    return this.#process.pid as number;
  }

  call<O extends Operation>(operation: O, takes: Operations[O]["takes"]): Promise<Operations[O]["gives"]> {
    this.#calls += 1;
    const call: Call = { n: this.#calls, operation, takes };
    const reply = new Promise<unknown>((resolve, reject) => this.#waiting.set(call.n, { resolve, reject }));
    this.#process.stdin?.write(`${JSON.stringify(call)}\n`);
    return withTimeout(`${operation} in a child process`, REPLY_MS, reply) as Promise<Operations[O]["gives"]>;
  }

  /** Calls an operation without waiting for its reply. */
  start<O extends Operation>(operation: O, takes: Operations[O]["takes"]): void {
    this.call(operation, takes).catch(() => {});
  }

  stop(): void {
    this.#signal("SIGSTOP");
  }

  resume(): void {
    this.#signal("SIGCONT");
  }

  terminate(): void {
    this.#signal("SIGTERM");
  }

  async kill(): Promise<void> {
    this.#signal("SIGKILL");
    await withTimeout("the death of a child process", EXIT_MS, this.#ended);
  }

  /** Waits for the child to exit by itself, with code 0. */
  async exits(): Promise<void> {
    const { code, signal } = await withTimeout("the end of a closed child process", EXIT_MS, this.#ended);
    assert.deepEqual({ code, signal }, { code: 0, signal: null });
  }

  /**
   * By process id, because Deno considers a child killed after any signal by ChildProcess.kill().
   */
  #signal(name: NodeJS.Signals): void {
    if (this.#process.exitCode === null && this.#process.signalCode === null) process.kill(this.pid, name);
  }

  #hear(line: string): void {
    const reply = JSON.parse(line) as Reply;
    const waiting = this.#waiting.get(reply.n);
    this.#waiting.delete(reply.n);
    if ("gives" in reply) waiting?.resolve(reply.gives);
    else waiting?.reject(new ChildError(reply.error.code, reply.error.message));
  }
}
