// Messages of `holdfast run` on stderr, or with --json one object on stderr at the end. With --json-to it
// writes both, and the object goes to another descriptor. stdout belongs to COMMAND.

import { writeSync } from "node:fs";
import { type Lease, LockError, LockLostError } from "../surface.ts";
import { endingExitCode, type Ending } from "./child.ts";
import { describe, EXIT, exitCodeOf } from "./exit-codes.ts";
import { heldBy } from "./lock-view.ts";
import { printError, printErrorJson } from "./output.ts";
import { formatDuration, formatName, toSafeJson } from "./format.ts";

export type Outcome =
  | "ended"
  | "not-started"
  | "lost"
  | "busy"
  | "stopped"
  | "unavailable"
  | "usage"
  | "internal";

const BY_EXIT_CODE: ReadonlyMap<number, Outcome> = new Map([
  [EXIT.usage, "usage"],
  [EXIT.unavailable, "unavailable"],
  [EXIT.busy, "busy"],
  [EXIT.lost, "lost"],
]);

export interface Blocker {
  readonly label: string;
  readonly fence: bigint | string;
  readonly heldMs: number;
  readonly remainingMs: number;
}

interface ReportFlags {
  readonly json?: true;
  readonly quiet?: true;
  readonly jsonTo?: number;
}

export class RunReport {
  readonly #key: string;
  readonly #json: boolean;
  readonly #quiet: boolean;
  readonly #fd: number | null;
  readonly #startedAtMs: number = performance.now();
  #grantedAtMs: number | null = null;
  #lease: { readonly label: string; readonly fence: string } | null = null;
  #holders: readonly Blocker[] = [];

  constructor(key: string, flags: ReportFlags) {
    this.#key = key;
    this.#json = flags.json === true;
    this.#quiet = flags.quiet === true;
    this.#fd = flags.jsonTo ?? null;
  }

  get waitedMs(): number {
    return (this.#grantedAtMs ?? performance.now()) - this.#startedAtMs;
  }

  log(text: string): void {
    if (!this.#json && !this.#quiet) printError(`${formatName(this.#key)}: ${text}`);
  }

  granted(lease: Lease): void {
    this.#grantedAtMs = performance.now();
    this.#lease = { label: lease.label, fence: String(lease.fence) };
  }

  waiting(holders: readonly Blocker[]): void {
    this.log(`waiting${holders.length > 0 ? `, ${heldBy(holders)}` : " in the queue"}`);
  }

  /** COMMAND does not get these variables. */
  dropped(variables: readonly string[]): void {
    const shown = variables.map(formatName).join(", ");
    this.log(`COMMAND does not get ${shown}: /bin/sh drops such names; install bash, which keeps them`);
  }

  /** COMMAND has ended, and these descendants run on. */
  descendantsLeft(left: readonly { readonly pid: number; readonly name: string }[]): void {
    const shown = left.slice(0, 5).map((one) => `${formatName(one.name)} ${one.pid}`);
    const more = left.length > shown.length ? `, ${left.length - shown.length} more` : "";
    const what =
      left.length === 1 ? "a process that it started runs" : `${left.length} processes that it started run`;
    this.log(`COMMAND has ended, but ${what} on (${shown.join(", ")}${more}): the key is kept until then`);
  }

  busy(holders: readonly Blocker[], exitCode: number): number {
    this.#holders = holders;
    const by = heldBy(holders);
    this.log(`busy${by && `, ${by}`}; gave up after ${formatDuration(this.waitedMs)}`);
    return this.#end("busy", exitCode);
  }

  stopped(signal: string, exitCode: number): number {
    this.log(`stopped by ${signal} before COMMAND was started`);
    return this.#end("stopped", exitCode, { signal });
  }

  ended(command: string, ending: Ending): number {
    const exitCode = endingExitCode(ending);
    if (!("notStarted" in ending)) {
      return this.#end("ended", exitCode, { signal: "signal" in ending ? ending.signal : null });
    }
    const { code, message } = ending.notStarted;
    const why = code === "ENOENT" ? "not found" : code === "EACCES" ? "not executable" : message;
    this.log(`${formatName(command)} cannot be started: ${why}`);
    return this.#end("not-started", exitCode, { error: { code: code ?? null, message } });
  }

  /** `loss` is null if COMMAND got a signal and ended before the lease was lost. */
  lost(ending: Ending, loss: LockLostError | null): number {
    const signal = "signal" in ending ? ending.signal : null;
    return this.#end("lost", EXIT.lost, { signal, ...lossJson(loss) });
  }

  failed(error: unknown): number {
    const exitCode = exitCodeOf(error);
    const message = describe(error);
    this.log(message);
    const code = LockError.is(error) ? error.code : null;
    const loss = error instanceof LockLostError ? lossJson(error) : {};
    return this.#end(BY_EXIT_CODE.get(exitCode) ?? "internal", exitCode, {
      ...loss,
      error: { code, message },
    });
  }

  #end(outcome: Outcome, exitCode: number, more: Readonly<Record<string, unknown>> = {}): number {
    if (this.#json || this.#fd !== null) {
      const grantedAtMs = this.#grantedAtMs;
      const report = {
        key: this.#key,
        outcome,
        exitCode,
        label: this.#lease?.label ?? null,
        fence: this.#lease?.fence ?? null,
        waitedMs: Math.round(this.waitedMs),
        heldMs: grantedAtMs === null ? null : Math.round(performance.now() - grantedAtMs),
        signal: null,
        reason: null,
        detail: null,
        error: null,
        ...more,
        holders: this.#holders.map(holderJson),
      };
      if (this.#json) printErrorJson(report);
      if (this.#fd !== null) writeTo(this.#fd, `${toSafeJson(report)}\n`);
    }
    return exitCode;
  }
}

/** A reader that has closed the pipe is not an error. */
function writeTo(fd: number, text: string): void {
  try {
    writeSync(fd, text);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EPIPE") printError(`--json-to ${fd}: ${String(error)}`);
  }
}

function lossJson(loss: LockLostError | null): Record<string, unknown> {
  return { reason: loss?.reason ?? null, detail: loss?.detail ?? null };
}

function holderJson({ label, fence, heldMs, remainingMs }: Blocker): Record<string, unknown> {
  return { label, fence: String(fence), heldMs: Math.round(heldMs), remainingMs: Math.round(remainingMs) };
}
