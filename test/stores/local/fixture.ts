// What the tests of the local store share: a plain Io, requests, a directory of their own, and child
// processes.

import { type ChildProcess, spawn, type SpawnOptions } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Grant, Io, OpenStore, Request } from "../../../src/core/store.ts";
import { local } from "../../../src/stores/local/index.ts";
import { nodeSystem } from "../../../src/system/node.ts";
import { bundledChildForAll } from "../../support/bundled-child.ts";

export function plainIo(timeoutMs = 2_000): Io {
  return {
    timeoutMs,
    signal: new AbortController().signal,
    sleep: (ms) => new Promise((resolve) => (ms === 0 ? setImmediate(resolve) : setTimeout(resolve, ms))),
  };
}

export function request(keys: string | readonly string[], more: Partial<Request> = {}): Request {
  return {
    keys: typeof keys === "string" ? [keys] : keys,
    id: nodeSystem.randomId(),
    seq: 1,
    mode: "exclusive",
    permits: 1,
    limit: 1,
    ttlMs: 30_000,
    graceMs: 1_000,
    reservedFences: 10_000,
    keepMs: 0,
    label: `test:${process.pid}`,
    actor: "test",
    queue: true,
    ...more,
  };
}

/** A directory that goes away with the test; short, because sockets live in it. */
export function freshDir(): { path: string; remove(): void } {
  const path = mkdtempSync("/tmp/hf-");
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

export function openIn(dir: string, namespace = "test"): Promise<OpenStore> {
  return local({ dir }).open({ namespace, system: nodeSystem, allow: [] });
}

export async function grantOf(store: OpenStore, asked: Request, io: Io = plainIo()): Promise<Grant> {
  const answer = await store.attempt(asked, io);
  if (!("granted" in answer)) throw new Error(`not granted: ${JSON.stringify(Object.keys(answer))}`);
  return answer.granted;
}

export async function isBusy(store: OpenStore, asked: Request, io: Io = plainIo()): Promise<boolean> {
  return "busy" in (await store.attempt(asked, io));
}

/** Waits as core does: subscribe, attempt, and again on every wake or hint. */
export async function waitFor(
  store: OpenStore,
  asked: Request,
  withinMs = 60_000,
  onSend: () => void = () => {},
): Promise<Grant> {
  let wake: () => void = () => {};
  const stop = await store.subscribe?.(asked, () => wake());
  const endMs = performance.now() + withinMs;
  try {
    for (let seq = asked.seq; ; seq += 1) {
      const woken = new Promise<void>((resolve) => (wake = resolve));
      onSend();
      const answer = await store.attempt({ ...asked, seq }, plainIo());
      if ("granted" in answer) return answer.granted;
      if (!("busy" in answer)) throw new Error(JSON.stringify(answer));
      if (performance.now() > endMs) throw new Error("waited in vain");
      await Promise.race([woken, plainIo().sleep(answer.busy.againMs)]);
    }
  } finally {
    stop?.();
  }
}

export class Child {
  readonly process: ChildProcess;
  readonly #lines: string[] = [];
  #hear: () => void = () => {};

  constructor(process: ChildProcess) {
    this.process = process;
    if (process.stdout === null) throw new Error("the child has no output");
    createInterface(process.stdout).on("line", (line) => {
      this.#lines.push(line);
      this.#hear();
    });
    process.on("exit", () => this.#hear());
  }

  get pid(): number {
    return this.process.pid as number;
  }

  /** The next line that it prints. */
  async line(): Promise<string> {
    while (this.#lines.length === 0) {
      if (this.process.exitCode !== null || this.process.signalCode !== null) {
        throw new Error(`the child ended: ${this.process.exitCode ?? this.process.signalCode}`);
      }
      await new Promise<void>((resolve) => (this.#hear = resolve));
    }
    return this.#lines.shift() as string;
  }

  say(line: string): void {
    this.process.stdin?.write(`${line}\n`);
  }

  async end(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const gone = once(this.process, "exit");
    this.process.kill(signal);
    await gone;
  }
}

/** Runs children/<name>.ts; `before` goes in front of node. */
export function child(
  name: string,
  args: readonly string[],
  before: readonly string[] = [],
  options: SpawnOptions = {},
): Child {
  const command = [
    ...before,
    process.execPath,
    bundledChildForAll(join(import.meta.dirname, "children", `${name}.ts`)),
    ...args,
  ];
  return new Child(
    spawn(command[0] as string, command.slice(1), { stdio: ["pipe", "pipe", "inherit"], ...options }),
  );
}

/** Everything that the store has in the directory, for this boot. */
export function filesIn(dir: string): string[] {
  return readdirSync(dir, { recursive: true, encoding: "utf8" }).filter((name) =>
    statSync(join(dir, name)).isFile(),
  );
}

/** The folder of the test namespace in a directory that has no other. */
export function folderIn(dir: string): string {
  const found = readdirSync(dir).filter((name) => /^[0-9a-f]{8}-[0-9a-f]{8}$/.test(name));
  if (found.length !== 1) throw new Error(`${found.length} folders`);
  return join(dir, found[0] as string);
}

export function logIn(dir: string): string {
  const found = readdirSync(folderIn(dir)).filter((name) => name.startsWith("log."));
  if (found.length !== 1) throw new Error(`${found.length} logs`);
  return join(folderIn(dir), found[0] as string);
}

/** Sockets of the stores that are open, or of dead ones that records still name. */
export function socketsIn(dir: string): string[] {
  return readdirSync(folderIn(dir)).filter((name) => /^[0-9a-f]{12}$/.test(name));
}

export function tell(to: Child, ...command: string[]): Promise<Record<string, unknown>> {
  to.say(JSON.stringify(command));
  return heard(to);
}

export async function heard(from: Child): Promise<Record<string, unknown>> {
  return JSON.parse(await from.line()) as Record<string, unknown>;
}

/** An actor that is ready for commands. */
export async function actor(
  dir: string,
  before: readonly string[] = [],
  options: SpawnOptions = {},
): Promise<Child> {
  const one = child("actor", [dir], before, options);
  const first = await heard(one);
  if (typeof first["ready"] !== "number") throw new Error(JSON.stringify(first));
  return one;
}
