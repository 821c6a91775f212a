// One server as a plain process: started, waited for, stopped by its pid. It never outlives the process that started it:
// a small shell holds the other end of a pipe, and when the pipe closes, for whatever reason, it ends the server and
// removes its folder. A server that does not start is an error with the end of its log.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { chown, mkdir, mkdtemp, rm } from "node:fs/promises";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { FoundProgram } from "./packages.ts";

export interface RunningServer {
  /** How a client reaches it. */
  readonly url: string;
  readonly port: number;
  /** null when the server was given by URL and is not ours to end. */
  readonly pid: number | null;
  /** Sends a signal, for example SIGSTOP or SIGKILL. */
  kill(signal: NodeJS.Signals): void;
  /** Ends the process and removes its data. May be called twice. */
  stop(): Promise<void>;
}

export interface LaunchOptions {
  readonly name: string;
  readonly program: FoundProgram;
  /** Receives the folder for the server's data. */
  readonly args: (dataFolder: string) => readonly string[];
  /** Whether it answers. A throw means: not yet. */
  readonly ready: () => Promise<boolean>;
  /** Data that outlives the process, for a restart; default a temporary folder that `stop` removes. */
  readonly dataFolder?: string | undefined;
  readonly startMs?: number | undefined;
  /** Fills the folder for the data before the program is started. */
  readonly prepare?: ((dataFolder: string) => Promise<void>) | undefined;
  /** Run as this user, to whom its folders are given; for programs that refuse root. */
  readonly user?: ServerUser | undefined;
}

export interface ServerUser {
  readonly uid: number;
  readonly gid: number;
}

export interface LaunchedProcess {
  readonly pid: number;
  kill(signal: NodeJS.Signals): void;
  stop(): Promise<void>;
}

// A busy machine takes its time; a server that cannot start ends by itself, and its log tells why.
const START_MS = 120_000;
const TERM_MS = 5_000;
const POLL_MS = 10;
const LOG_LINES = 20;

// Reads the pipe: each line is the process group to end, an empty line says that it has ended. $1 = folder to remove.
const WATCHDOG = `group=
while read -r line; do group=$line; done
[ -z "$group" ] || kill -s KILL -- "-$group" 2>/dev/null
rm -rf -- "$1"`;

/** Starts the program and waits until it answers. */
export async function launch(options: LaunchOptions): Promise<LaunchedProcess> {
  const home = await mkdtemp(join(tmpdir(), `holdfast-${options.name}-`));
  const log = join(home, "log");
  const dataFolder = options.dataFolder ?? join(home, "data");
  await mkdir(dataFolder, { recursive: true });
  if (options.user !== undefined)
    for (const folder of [home, dataFolder]) await chown(folder, options.user.uid, options.user.gid);
  let child: ChildProcess;
  try {
    await options.prepare?.(dataFolder);
    child = await spawnInto(log, options.program, options.args(dataFolder), home, options.user);
  } catch (error) {
    await rm(home, { recursive: true, force: true });
    throw new Error(`${options.name} did not start: ${options.program.path}: ${String(error)}`, {
      cause: error,
    });
  }
  const server = new OwnedProcess(child, home);
  try {
    await answered(options, child);
  } catch (error) {
    const said = logTail(log);
    await server.stop();
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`${options.name} did not start (${options.program.path}): ${reason}\n${said}`, {
      cause: error,
    });
  }
  return server;
}

/** A process group of its own: Ctrl-C reaches only us, and we end the server in order. */
async function spawnInto(
  log: string,
  program: FoundProgram,
  args: readonly string[],
  cwd: string,
  user: ServerUser | undefined,
): Promise<ChildProcess> {
  const out = openSync(log, "a");
  try {
    const env = { ...process.env, ...program.env };
    const child = spawn(program.path, [...(program.args ?? []), ...args], {
      ...{ cwd, env, detached: true, stdio: ["ignore", out, out] },
      ...user,
    });
    await once(child, "spawn");
    child.unref();
    return child;
  } finally {
    closeSync(out);
  }
}

class OwnedProcess implements LaunchedProcess {
  readonly pid: number;
  readonly #child: ChildProcess;
  readonly #watchdog: ChildProcess;
  readonly #pipe: Socket;
  #stopped: Promise<void> | undefined;

  constructor(child: ChildProcess, home: string) {
    this.pid = child.pid as number;
    this.#child = child;
    const args = ["-c", WATCHDOG, "watchdog", home];
    this.#watchdog = spawn("/bin/sh", args, {
      cwd: "/",
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
    });
    this.#watchdog.unref();
    this.#pipe = this.#watchdog.stdin as Socket;
    this.#pipe.unref();
    this.#pipe.on("error", () => {}); // somebody ended the watchdog: `stop` still ends the server
    this.#pipe.write(`${this.pid}\n`);
    // From now on the number may belong to a stranger.
    child.once("exit", () => this.#pipe.write("\n"));
  }

  kill(signal: NodeJS.Signals): void {
    if (!ended(this.#child)) process.kill(this.pid, signal);
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    // A stopped process does not see SIGTERM until it goes on.
    this.kill("SIGTERM");
    this.kill("SIGCONT");
    if (!(await endsWithin(this.#child, TERM_MS))) {
      this.kill("SIGKILL");
      await endsWithin(this.#child, TERM_MS);
    }
    this.#pipe.end();
    await endsWithin(this.#watchdog, TERM_MS);
  }
}

async function answered(options: LaunchOptions, child: ChildProcess): Promise<void> {
  const limitMs = options.startMs ?? START_MS;
  const deadline = performance.now() + limitMs;
  while (performance.now() < deadline) {
    if (ended(child)) throw new Error(`it ended with ${child.signalCode ?? `exit code ${child.exitCode}`}`);
    if (await options.ready().catch(() => false)) return;
    await sleep(POLL_MS);
  }
  throw new Error(`it did not answer within ${limitMs} ms`);
}

function ended(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

async function endsWithin(child: ChildProcess, ms: number): Promise<boolean> {
  const deadline = performance.now() + ms;
  while (!ended(child) && performance.now() < deadline) await sleep(POLL_MS);
  return ended(child);
}

function logTail(log: string): string {
  const lines = readFileSync(log, "utf8").trimEnd().split("\n").slice(-LOG_LINES);
  return `end of its log:\n${lines.map((line) => `  ${line}`).join("\n")}`;
}
