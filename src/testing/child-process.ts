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

let compiledChild: string | null = null;

/** The tests of this repository name the compiled program, which starts in a third of the time that the source takes. */
export function useCompiledChild(program: string): void {
  compiledChild = program;
}

/** The compiled package starts the program as it is; in the source tree a loader translates it. */
function command({ store }: ChildSetup): { readonly program: string; readonly loader: readonly string[] } {
  // The module of a store may itself need the loader.
  if (compiledChild !== null && "url" in store) return { program: compiledChild, loader: [] };
  const source = import.meta.url.endsWith(".ts");
  const program = fileURLToPath(new URL(source ? "./child.ts" : "./child.js", import.meta.url));
  return { program, loader: source ? ["--import", "tsx"] : [] };
}

/** A refusal in the child, with its code. */
export class ChildError extends Error {
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
    const { program, loader } = command(setup);
    this.#process = spawn(process.execPath, [...loader, program, JSON.stringify(setup)], {
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
    this.#process.kill("SIGSTOP");
  }

  resume(): void {
    this.#process.kill("SIGCONT");
  }

  async kill(): Promise<void> {
    this.#process.kill("SIGKILL");
    await within("the death of a child process", EXIT_MS, this.#ended);
  }

  /** Waits for its end, which must come by itself and without an error. */
  async exits(): Promise<void> {
    const { code, signal } = await within("the end of a closed child process", EXIT_MS, this.#ended);
    assert.deepEqual({ code, signal }, { code: 0, signal: null });
  }

  #hear(line: string): void {
    const reply = JSON.parse(line) as Reply;
    const waiting = this.#waiting.get(reply.n);
    this.#waiting.delete(reply.n);
    if ("gives" in reply) waiting?.resolve(reply.gives);
    else waiting?.reject(new ChildError(reply.error.code, reply.error.message));
  }
}
