// One program of this folder as a child process: started, spoken to, sent signals, waited for.

import { type ChildProcess, spawn } from "node:child_process";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Watchdog } from "./watchdog.ts";

const ROOT: string = join(import.meta.dirname, "..");

export class Program {
  readonly #name: string;
  readonly #child: ChildProcess;
  readonly #gone: Promise<string>;
  readonly #readiness: Promise<void>;
  #said = "";
  #ended = false;

  /** Of a compiled file. */
  constructor(file: string, setup: unknown, watchdog: Watchdog, env: NodeJS.ProcessEnv) {
    this.#name = basename(file, ".js");
    this.#child = spawn(process.execPath, [file, JSON.stringify(setup)], {
      cwd: ROOT,
      env: { ...process.env, ...env },
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    watchdog.guard(this.#child);
    this.#child.stderr?.on(
      "data",
      (chunk: Buffer) => (this.#said = `${this.#said}${String(chunk)}`.slice(-4_000)),
    );
    this.#gone = new Promise((resolve) => {
      this.#child.once("exit", (code, signal) => resolve(signal ?? String(code)));
      this.#child.once("error", (error) => resolve(String(error)));
    });
    this.#readiness = new Promise((resolve) => {
      this.onMessage((message) => {
        if ((message as { say: string }).say === "ready") resolve();
      });
    });
  }

  /** It was ended from here. */
  get ended(): boolean {
    return this.#ended;
  }

  /** A process that is killed while it starts is as good as ready: whoever waits goes on. */
  async ready(limitMs: number): Promise<void> {
    const gone = this.#gone.then((how) => {
      if (how !== "SIGKILL")
        throw new Error(`${this.#name} ended with ${how} before it was ready\n${this.#said}`);
    });
    const late = sleep(limitMs, undefined, { ref: false }).then(() => {
      throw new Error(`${this.#name} was not ready within ${limitMs} ms\n${this.#said}`);
    });
    await Promise.race([this.#readiness, gone, late]);
  }

  onMessage(listener: (message: unknown) => void): void {
    this.#child.on("message", listener);
  }

  onExit(listener: (how: string) => void): void {
    void this.#gone.then((how) =>
      listener(how === "0" || how.startsWith("SIG") ? how : `${how}\n${this.#said}`),
    );
  }

  send(message: object): void {
    // A child that has just gone cannot be told; its exit says the rest.
    if (this.#child.connected) this.#child.send(message, () => {});
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  async exits(limitMs: number): Promise<boolean> {
    const cancel = new AbortController();
    const late = sleep(limitMs, false, { signal: cancel.signal }).catch(() => false);
    const gone = await Promise.race([this.#gone.then(() => true), late]);
    cancel.abort();
    return gone;
  }

  async end(): Promise<void> {
    this.#ended = true;
    this.#child.kill("SIGKILL");
    await this.#gone;
  }
}
