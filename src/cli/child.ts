// The command that runs under the lease. Without a terminal it gets a process group of its own, so that whatever it starts
// can be signalled and ended with it; at a terminal it stays in ours, because job control and Ctrl-C belong to the group.
// It starts behind a gate: a shell that waits for a word from this process and then becomes the command. If this process is
// killed before the watchdog knows whom to watch, the gate never opens and the command never runs.

import { type ChildProcess, spawn } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { constants as system } from "node:os";
import { join } from "node:path";
import type { Writable } from "node:stream";
import { EXIT, EXIT_BY_SIGNAL } from "./exit-codes.ts";

export type Ending =
  | { readonly code: number }
  | { readonly signal: NodeJS.Signals }
  | { readonly notStarted: NodeJS.ErrnoException };

export interface ChildOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Inherited as descriptor 3. */
  readonly lifeline: number | null;
  readonly interactive: boolean;
}

const SHELL = "/bin/sh";

export class Child {
  /** What `kill` takes: a process id, or that of a group with a minus; null when it could not be started. */
  readonly target: number | null;
  readonly ended: Promise<Ending>;
  readonly #gate: Writable | null;

  private constructor(child: ChildProcess, gate: number, interactive: boolean) {
    this.#gate = (child.stdio[gate] as Writable | undefined) ?? null;
    // A child that is gone before the gate opened is told of by its end.
    this.#gate?.on("error", () => {});
    this.target = child.pid === undefined ? null : interactive ? child.pid : -child.pid;
    this.ended = new Promise((resolve) => {
      child.once("error", (error) => {
        if (child.pid === undefined) resolve({ notStarted: error });
      });
      child.once("exit", (code, signal) => resolve(signal === null ? { code: code as number } : { signal }));
    });
  }

  static start(command: readonly string[], options: ChildOptions): Child {
    const { env, lifeline, interactive } = options;
    const before = lifeline === null ? [] : [lifeline];
    const gate = 3 + before.length;
    const script = `read -r go <&${gate} || exit ${EXIT.internal}; exec ${gate}<&-; exec "$@"`;
    const child = spawn(SHELL, ["-c", script, "holdfast", ...command], {
      stdio: ["inherit", "inherit", "inherit", ...before, "pipe"],
      detached: !interactive,
      env,
    });
    return new Child(child, gate, interactive);
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

  /** Also after its end: what it started may still be in its group. */
  signal(name: NodeJS.Signals): void {
    if (this.target === null) return;
    try {
      process.kill(this.target, name);
    } catch {
      // Nobody is left to hear it, or it runs as another user now.
    }
  }
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
