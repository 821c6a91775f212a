// The suite's end of a child process: starts it, talks to it, stops it, kills it.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { dirname } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Call, ChildSetup, Operation, Operations, Reply } from "./child-protocol.ts";
import { within } from "./io.ts";

// These end a case that hangs: a busy machine takes seconds to start a process.
const REPLY_MS = 90_000;
const EXIT_MS = 60_000;

interface Waiting {
  resolve(gives: unknown): void;
  reject(error: unknown): void;
}

/** Programs that run the children in turn, as JSON: lists of a program and its arguments. */
const RUNTIMES = JSON.parse(process.env["HOLDFAST_TEST_RUNTIMES"] ?? "[]") as readonly (readonly string[])[];
let started = 0;
let compiledChild: string | null = null;

/**
 * The tests of this repository name the compiled program, which starts in a third of the time that the source
 * takes.
 */
export function useCompiledChild(program: string): void {
  compiledChild = program;
}

/** The compiled package starts the program as it is; in the source tree a loader translates it. */
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

/** A refusal in the child, with its code. */
class ChildError extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

export class Child {
  readonly #process: ChildProcess;
  readonly #waiting = new Map<number, Waiting>();
  /** Resolves with how it ended. */
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
    return within(`${operation} in a child process`, REPLY_MS, reply) as Promise<Operations[O]["gives"]>;
  }

  /** Asks for something that this child is not expected to live to answer. */
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
    await within("the death of a child process", EXIT_MS, this.#ended);
  }

  /** Waits for its end, which must come by itself and without an error. */
  async exits(): Promise<void> {
    const { code, signal } = await within("the end of a closed child process", EXIT_MS, this.#ended);
    assert.deepEqual({ code, signal }, { code: 0, signal: null });
  }

  /**
   * By process id: for Deno a child that was sent any signal through ChildProcess.kill() counts as killed.
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
