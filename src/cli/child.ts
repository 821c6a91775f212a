// COMMAND and the processes that it starts.
// - Without a terminal, COMMAND gets a process group of its own, which can be signalled as one.
// - At a terminal it stays in the group of this process, because job control and Ctrl-C belong to that group.
//   Its descendants are then found in /proc.
// - A process that starts a session of its own (a daemon) does not count.
//
// COMMAND starts behind a gate: a shell that reads one line from a pipe and then execs COMMAND. If this
// process is killed before the watchdog knows the pid of COMMAND, the shell reads end-of-file and COMMAND
// never runs. Most shells drop variables whose names are not identifiers (`my.dotted.var`). Bash keeps them,
// so bash is the gate if there are any.

import { type ChildProcess, spawn, type StdioOptions } from "node:child_process";
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { constants as system } from "node:os";
import { join } from "node:path";
import type { Writable } from "node:stream";
import { gateFd, inheritedFds, LIFELINE_FD } from "./descriptors.ts";
import { EXIT, EXIT_BY_SIGNAL } from "./exit-codes.ts";
import { findDescendants, livingProcesses, type ProcessInfo, readProcess } from "./processes.ts";

export type Ending =
  | { readonly code: number }
  | { readonly signal: NodeJS.Signals }
  | { readonly notStarted: NodeJS.ErrnoException };

export interface ChildOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Inherited as LIFELINE_FD. */
  readonly lifeline: number | null;
  readonly interactive: boolean;
  /** Text in `env` that marks COMMAND and what it starts. */
  readonly mark: string;
}

const SHELL = "/bin/sh";
const BASHES = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"];
const SHELL_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

export class Child {
  /** Null if it could not be started. */
  readonly pid: number | null;
  readonly ended: Promise<Ending>;
  readonly #gate: Writable | null;
  readonly #interactive: boolean;
  readonly #mark: string;
  #hasEnded = false;

  private constructor(child: ChildProcess, gate: number, { interactive, mark }: ChildOptions) {
    this.#gate = (child.stdio[gate] as Writable | undefined) ?? null;
    // If the child ends before the gate opens, `ended` reports it.
    this.#gate?.on("error", () => {});
    this.pid = child.pid ?? null;
    this.#interactive = interactive;
    this.#mark = mark;
    child.once("exit", () => (this.#hasEnded = true));
    this.ended = new Promise((resolve) => {
      child.once("error", (error) => {
        if (child.pid === undefined) resolve({ notStarted: error });
      });
      child.once("exit", (code, signal) => resolve(signal === null ? { code: code as number } : { signal }));
    });
  }

  static start(command: readonly string[], options: ChildOptions): Child {
    const { env, lifeline, interactive } = options;
    const inherited = inheritedFds();
    const gate = gateFd();
    const stdio: StdioOptions = ["inherit", "inherit", "inherit"];
    for (let fd = stdio.length; fd <= LIFELINE_FD; fd += 1)
      stdio[fd] = inherited.includes(fd) ? fd : "ignore";
    stdio[gate] = "pipe";
    if (lifeline !== null) stdio[LIFELINE_FD] = lifeline;
    const [shell, ...flags] = gateShell(env);
    const script = `read -r go <&${gate} || exit ${EXIT.internal}; exec ${gate}<&-; exec "$@"`;
    const child = spawn(shell, [...flags, "-c", script, "holdfast", ...command], {
      stdio,
      detached: !interactive,
      env,
    });
    return new Child(child, gate, options);
  }

  /** The names of variables that COMMAND does not get, because no shell on this machine passes them on. */
  static droppedVariables(env: ChildOptions["env"]): readonly string[] {
    return bash() === undefined ? oddNames(env) : [];
  }

  /**
   * Why COMMAND cannot be started, or null. Checked first, because the shell of the gate could not report it.
   */
  static startError(command: readonly string[], path: string | undefined): Ending | null {
    const file = command[0] as string;
    const places = file.includes("/")
      ? [file]
      : (path ?? DEFAULT_PATH).split(":").map((dir) => join(dir || ".", file));
    let reason = "ENOENT";
    for (const place of places) {
      const seen = executeError(place);
      if (seen === null) return null;
      if (seen !== "ENOENT" && seen !== "ENOTDIR") reason = seen;
    }
    return { notStarted: Object.assign(new Error(`${reason}: ${file}`), { code: reason }) };
  }

  /** Lets COMMAND run. Call it once the watchdog guards it. */
  openGate(): void {
    this.#gate?.end("go\n");
  }

  /** For the watchdog: the process group, or the pid with the session and the mark of its descendants. */
  get watchdogTarget(): string {
    if (!this.#interactive) return `-${this.pid}`;
    return `${this.pid} ${readProcess("self")?.session ?? ""} ${this.#mark}`;
  }

  /**
   * Forwards a signal to the group; at a terminal to COMMAND alone, or to its descendants once it has ended.
   */
  signal(name: NodeJS.Signals): void {
    if (this.pid === null) return;
    if (this.#interactive && this.#hasEnded) return this.signalAll(name);
    send(this.#interactive ? this.pid : -this.pid, name);
  }

  /** Signals COMMAND and its descendants, also after COMMAND has ended. */
  signalAll(name: NodeJS.Signals): void {
    if (this.pid === null) return;
    if (!this.#interactive) return send(-this.pid, name);
    if (!this.#hasEnded) send(this.pid, name);
    // A process may start another one while the list is read, so the list is read until it is empty.
    for (let pass = 0; pass < MOST_PASSES; pass += 1) {
      const others = (findDescendants(this.pid, this.#mark) ?? []).filter(({ pid }) => pid !== this.pid);
      for (const { pid } of others) send(pid, name);
      if (others.length === 0 || name !== "SIGKILL") return;
    }
  }

  /**
   * The processes that run on after COMMAND has ended. Without /proc, one entry for a group that is not
   * empty.
   */
  livingDescendants(): readonly Pick<ProcessInfo, "pid" | "name">[] {
    const { pid } = this;
    if (pid === null) return [];
    if (this.#interactive) return findDescendants(pid, this.#mark) ?? [];
    if (!groupExists(pid)) return [];
    return livingProcesses()?.filter(({ group }) => group === pid) ?? [{ pid, name: "group" }];
  }
}

/** Limits the passes over /proc, because a process may start others forever. */
const MOST_PASSES = 5;

function send(target: number, name: NodeJS.Signals): void {
  try {
    process.kill(target, name);
  } catch {
    // The process has ended, or runs as another user.
  }
}

/** True also for a group of zombies. */
function groupExists(group: number): boolean {
  try {
    process.kill(-group, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}

function oddNames(env: ChildOptions["env"]): readonly string[] {
  return Object.keys(env).filter((name) => !SHELL_NAME.test(name));
}

function bash(): string | undefined {
  return BASHES.find((path) => existsSync(path));
}

/** -p: bash then reads neither BASH_ENV nor exported functions, and passes both on. */
function gateShell(env: ChildOptions["env"]): readonly [shell: string, ...flags: string[]] {
  const shell = oddNames(env).length === 0 ? undefined : bash();
  return shell === undefined ? [SHELL] : [shell, "-p"];
}

/** Where the C library looks when there is no PATH. */
const DEFAULT_PATH = "/bin:/usr/bin";

/** Null, or the error code that executing the file would fail with. */
function executeError(path: string): string | null {
  try {
    if (!statSync(path).isFile()) return "EACCES";
    accessSync(path, constants.X_OK);
    return null;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? "EACCES";
  }
}

export function signalExitCode(signal: NodeJS.Signals): number {
  return EXIT_BY_SIGNAL + system.signals[signal];
}

export function endingExitCode(ending: Ending): number {
  if ("code" in ending) return ending.code;
  if ("signal" in ending) return signalExitCode(ending.signal);
  return ending.notStarted.code === "ENOENT" ? EXIT.notFound : EXIT.notExecutable;
}
