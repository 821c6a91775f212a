// The command that runs under the lease, with whatever it starts. Without a terminal it gets a process
// group of its own, which can be signalled and ended as one. At a terminal it stays in ours, because job
// control and Ctrl-C belong to the group; what it has started is then looked up in /proc. A process that
// starts a session of its own (a daemon) is no part of it.
// It starts behind a gate: a shell that waits for a word from this process and then becomes the command. If
// this process is killed before the watchdog knows whom to watch, the gate never opens and the command
// never runs.
// Most shells drop variables whose names they could not use themselves (`my.dotted.var`). Bash keeps them,
// so it is the gate where there are any.

import { type ChildProcess, spawn, type StdioOptions } from "node:child_process";
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { constants as system } from "node:os";
import { join } from "node:path";
import type { Writable } from "node:stream";
import { gateFd, inheritedFds, LIFELINE_FD } from "./descriptors.ts";
import { EXIT, EXIT_BY_SIGNAL } from "./exit-codes.ts";
import { family, livingProcesses, type ProcessInfo, readProcess } from "./processes.ts";

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
  /** null when it could not be started. */
  readonly pid: number | null;
  readonly ended: Promise<Ending>;
  readonly #gate: Writable | null;
  readonly #interactive: boolean;
  readonly #mark: string;
  #hasEnded = false;

  private constructor(child: ChildProcess, gate: number, { interactive, mark }: ChildOptions) {
    this.#gate = (child.stdio[gate] as Writable | undefined) ?? null;
    // A child that is gone before the gate opened is told of by its end.
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

  /** The names of variables that COMMAND cannot get, because no shell here passes them on. */
  static droppedVariables(env: ChildOptions["env"]): readonly string[] {
    return bash() === undefined ? oddNames(env) : [];
  }

  /** Why the command cannot be started, or null. Asked first, because behind the gate nobody could tell. */
  static obstacle(command: readonly string[], path: string | undefined): Ending | null {
    const file = command[0] as string;
    const places = file.includes("/")
      ? [file]
      : (path ?? DEFAULT_PATH).split(":").map((dir) => join(dir || ".", file));
    let reason = "ENOENT";
    for (const place of places) {
      const seen = startable(place);
      if (seen === null) return null;
      if (seen !== "ENOENT" && seen !== "ENOTDIR") reason = seen;
    }
    return { notStarted: Object.assign(new Error(`${reason}: ${file}`), { code: reason }) };
  }

  /** The watchdog knows it now: the command may run. */
  open(): void {
    this.#gate?.end("go\n");
  }

  /** For the watchdog: the group, or COMMAND with the session and the mark of what it starts. */
  get watchdogTarget(): string {
    if (!this.#interactive) return `-${this.pid}`;
    return `${this.pid} ${readProcess("self")?.session ?? ""} ${this.#mark}`;
  }

  /**
   * A signal that was sent to us: to the group; at a terminal to COMMAND alone, or when it has ended to
   * what it left.
   */
  signal(name: NodeJS.Signals): void {
    if (this.pid === null) return;
    if (this.#interactive && this.#hasEnded) return this.signalAll(name);
    send(this.#interactive ? this.pid : -this.pid, name);
  }

  /** To COMMAND and all that it started, also after its end. */
  signalAll(name: NodeJS.Signals): void {
    if (this.pid === null) return;
    if (!this.#interactive) return send(-this.pid, name);
    if (!this.#hasEnded) send(this.pid, name);
    // A process may start another one while the list is read, so what dies is looked for until there is none.
    for (let pass = 0; pass < MOST_PASSES; pass += 1) {
      const others = (family(this.pid, this.#mark) ?? []).filter(({ pid }) => pid !== this.pid);
      for (const { pid } of others) send(pid, name);
      if (others.length === 0 || name !== "SIGKILL") return;
    }
  }

  /**
   * What COMMAND left running when it ended. Where there is no /proc: itself, for a group that is not
   * empty.
   */
  survivors(): readonly Pick<ProcessInfo, "pid" | "name">[] {
    const { pid } = this;
    if (pid === null) return [];
    if (this.#interactive) return family(pid, this.#mark) ?? [];
    if (!groupExists(pid)) return [];
    return livingProcesses()?.filter(({ group }) => group === pid) ?? [{ pid, name: "group" }];
  }
}

/** Passes over the processes of a terminal, so that one that starts others for ever does not keep us. */
const MOST_PASSES = 5;

function send(target: number, name: NodeJS.Signals): void {
  try {
    process.kill(target, name);
  } catch {
    // Nobody is left to hear it, or it runs as another user now.
  }
}

/** Zombies count: the caller looks closer. */
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

/** -p: bash then runs no file that the environment names, and passes exported functions on unread. */
function gateShell(env: ChildOptions["env"]): readonly [shell: string, ...flags: string[]] {
  const shell = oddNames(env).length === 0 ? undefined : bash();
  return shell === undefined ? [SHELL] : [shell, "-p"];
}

/** Where the C library looks when there is no PATH. */
const DEFAULT_PATH = "/bin:/usr/bin";

/** null, or the error that executing it would end in. */
function startable(path: string): string | null {
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
