// The command that runs under the lease. Without a terminal it gets a process group of its own, so that whatever it starts
// can be signalled and ended with it; at a terminal it stays in ours, because job control and Ctrl-C belong to the group.

import { type ChildProcess, spawn } from "node:child_process";
import { constants } from "node:os";
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

export class Child {
  /** What `kill` takes: a process id, or that of a group with a minus; null when it could not be started. */
  readonly target: number | null;
  readonly ended: Promise<Ending>;

  private constructor(child: ChildProcess, interactive: boolean) {
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
    const [file, ...args] = command as [string, ...string[]];
    const child = spawn(file, args, {
      stdio: ["inherit", "inherit", "inherit", ...(lifeline === null ? [] : [lifeline])],
      detached: !interactive,
      env,
    });
    return new Child(child, interactive);
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

export function signalExitCode(signal: NodeJS.Signals): number {
  return EXIT_BY_SIGNAL + constants.signals[signal];
}

export function endingExitCode(ending: Ending): number {
  if ("code" in ending) return ending.code;
  if ("signal" in ending) return signalExitCode(ending.signal);
  return ending.notStarted.code === "ENOENT" ? EXIT.notFound : EXIT.notExecutable;
}
