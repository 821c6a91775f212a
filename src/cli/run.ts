// `holdfast run KEY -- COMMAND`: holds KEY while COMMAND runs.
// 1. Wait for the key; a signal ends the wait.
// 2. Start the watchdog, then COMMAND, both with the lifeline. Forward signals.
// 3. When COMMAND and its background processes have ended, release the key and exit as COMMAND did.
//
// COMMAND never runs without the key.

import { setTimeout as sleep } from "node:timers/promises";
import { isatty } from "node:tty";
import {
  type AcquireOptions,
  type AllowName,
  type Lease,
  LockError,
  type LockLostError,
  LockTimeoutError,
} from "../surface.ts";
import { Child, type Ending } from "./child.ts";
import { isForReport, keepFromCommand } from "./descriptors.ts";
import { HELD_VARIABLE, entryOf, type ScopedKey, rejectNested, appendEntry } from "./enclosing.ts";
import { CommandError, EXIT } from "./exit-codes.ts";
import { LossGuard, type OnLost } from "./loss-guard.ts";
import { DEFAULT_NAMESPACE, type OpenedLocks, openLocks, type StoreFlags, storeUrl } from "./options.ts";
import { type Blocker, RunReport } from "./run-report.ts";
import { Signals } from "./signals.ts";
import { Watchdog } from "./watchdog.ts";
import { formatName } from "./format.ts";

export interface RunFlags extends StoreFlags {
  /** ms; false is --no-wait. */
  readonly wait?: number | false;
  readonly ttl?: number;
  readonly shared?: true;
  readonly limit?: number;
  readonly atLeast?: number;
  readonly label?: string;
  readonly onLost: OnLost;
  readonly allow?: readonly string[];
  readonly busyCode?: number;
  readonly quiet?: true;
  readonly jsonTo?: number;
}

/** A longer wait is reported, once. */
const REPORT_WAIT_AFTER_MS = 1_000;

/** Descendants that run on are reported after this time. Many end together with COMMAND. */
const REPORT_DESCENDANTS_AFTER_MS = 250;
const SHORTEST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 500;

/** Windows has no process groups, no /bin/sh and no signals that a process can handle. */
const NO_RUN_ON_WINDOWS =
  "holdfast run does not work on Windows: if holdfast were killed or lost its lease, nothing would end " +
  "COMMAND. Use locks.using() in a program, or run it in WSL. The other commands work here";

/** Node waits for the children that it started itself, and for no others. */
const NO_REAPER =
  "holdfast is process 1 here and reaps no orphans: they stay as zombies until it ends. " +
  "Start the container with an init (docker run --init)";

interface Ran {
  readonly ending: Ending;
  readonly lost: boolean;
  readonly loss?: LockLostError | null;
}

export async function run(key: string, command: readonly string[], flags: RunFlags): Promise<number> {
  if (process.platform === "win32") throw new CommandError(NO_RUN_ON_WINDOWS, EXIT.unavailable);
  if (flags.jsonTo !== undefined) claimReportFd(flags.jsonTo);
  const report = new RunReport(key, flags);
  const signals = new Signals();
  let opened: OpenedLocks | null = null;
  try {
    opened = await openLocks(flags, { allow: (flags.allow ?? []) as AllowName[] });
    return await new Run(key, command, flags, opened, report, signals).execute();
  } catch (error) {
    return report.failed(error);
  } finally {
    await opened?.locks.close();
  }
}

/** @throws CommandError if it cannot be written to. Checked before COMMAND runs, because of typing errors. */
function claimReportFd(fd: number): void {
  if (!isForReport(fd))
    throw new CommandError(`--json-to must be an open descriptor, got ${fd}: add ${fd}>FILE`, EXIT.usage);
  keepFromCommand(fd);
}

class Run {
  readonly #key: string;
  readonly #command: readonly string[];
  readonly #flags: RunFlags;
  readonly #opened: OpenedLocks;
  readonly #report: RunReport;
  readonly #signals: Signals;

  constructor(
    key: string,
    command: readonly string[],
    flags: RunFlags,
    opened: OpenedLocks,
    report: RunReport,
    signals: Signals,
  ) {
    this.#key = key;
    this.#command = command;
    this.#flags = flags;
    this.#opened = opened;
    this.#report = report;
    this.#signals = signals;
  }

  /** Resolves with the exit code. */
  async execute(): Promise<number> {
    const timer = setTimeout(() => void this.#reportWait(), REPORT_WAIT_AFTER_MS);
    let ran: Ran | null = null;
    const work = async (lease: Lease): Promise<void> => {
      clearTimeout(timer);
      this.#report.granted(lease);
      if (this.#signals.stoppedBy === null) ran = await this.#runChild(lease);
    };
    try {
      if (!(await this.#hold(work))) return await this.#busy(null);
    } catch (error) {
      if (LockError.is(error) && error.code === "ERR_LOCK_TIMEOUT") return await this.#busy(error);
      if (this.#signals.stoppedBy === null && ran === null) throw error;
    } finally {
      clearTimeout(timer);
    }
    return this.#ended(ran);
  }

  /** Returns false if --at-least found the key taken. */
  async #hold(work: (lease: Lease) => Promise<void>): Promise<boolean> {
    const { locks } = this.#opened;
    const { atLeast } = this.#flags;
    await rejectNested(locks, this.#scopedKey(), process.env[HELD_VARIABLE]);
    if (atLeast !== undefined)
      return (await locks.once(this.#key, { ...this.#acquireOptions(), atLeast }, work)).ran;
    const lease = await locks.acquire(this.#key, this.#acquireOptions());
    try {
      await work(lease);
    } finally {
      await lease.release().catch((error: unknown) => {
        this.#report.log(error instanceof Error ? error.message : String(error));
      });
    }
    return true;
  }

  #acquireOptions(): AcquireOptions {
    const { wait = Number.POSITIVE_INFINITY, ttl, shared, limit, label } = this.#flags;
    return {
      wait: wait === false ? 0 : wait,
      signal: this.#signals.stop,
      ...(ttl === undefined ? {} : { ttl }),
      ...(shared ? { mode: "shared" } : {}),
      ...(limit === undefined ? {} : { limit }),
      ...(label === undefined ? {} : { label }),
    };
  }

  async #runChild(lease: Lease): Promise<Ran> {
    const lifeline = this.#opened.lifeline();
    const interactive = isatty(0);
    if (process.pid === 1) this.#report.log(NO_REAPER);
    const watchdog = Watchdog.start(formatName(this.#key), lifeline);
    try {
      const mark = entryOf(this.#scopedKey(), lease.fence);
      const env = {
        ...process.env,
        HOLDFAST_KEY: this.#key,
        HOLDFAST_FENCE: String(lease.fence),
        HOLDFAST_LABEL: lease.label,
        [HELD_VARIABLE]: appendEntry(process.env[HELD_VARIABLE], mark),
      };
      // This process may have been stopped since the grant.
      lease.assertHeld();
      const startError = Child.startError(this.#command, process.env["PATH"]);
      if (startError !== null) return { ending: startError, lost: false };
      const dropped = Child.droppedVariables(env);
      if (dropped.length > 0) this.#report.dropped(dropped);
      const child = Child.start(this.#command, {
        env,
        mark,
        lifeline,
        interactive,
      });
      if (child.pid === null) return { ending: await child.ended, lost: false };
      watchdog.guard(child.watchdogTarget);
      child.openGate();
      this.#signals.forwardTo(child, interactive);
      const guard = new LossGuard({
        locks: this.#opened.locks,
        lease,
        child,
        watchdog,
        onLost: this.#flags.onLost,
        report: (text) => this.#report.log(text),
      });
      const ending = await child.ended;
      await this.#waitForDescendants(child);
      this.#signals.ignore();
      return { ending, lost: guard.close(), loss: guard.loss };
    } finally {
      watchdog.stop();
    }
  }

  /** Keeps the key until the background processes of COMMAND have ended, as flock(1) does. */
  async #waitForDescendants(child: Child): Promise<void> {
    const startMs = performance.now();
    let isReported = false;
    for (let pauseMs = SHORTEST_PAUSE_MS; ; pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2)) {
      const left = child.livingDescendants();
      if (left.length === 0) return;
      if (!isReported && performance.now() - startMs > REPORT_DESCENDANTS_AFTER_MS) {
        isReported = true;
        this.#report.descendantsLeft(left);
      }
      await sleep(pauseMs);
    }
  }

  #scopedKey(): ScopedKey {
    const { namespace = DEFAULT_NAMESPACE } = this.#flags;
    return { store: storeUrl(this.#flags), namespace, key: this.#key };
  }

  async #busy(refusal: LockError | null): Promise<number> {
    const known = refusal instanceof LockTimeoutError ? refusal.holders : [];
    const holders = known.length > 0 ? known : await this.#holders().catch(() => []);
    return this.#report.busy(holders, this.#flags.busyCode ?? EXIT.busy);
  }

  #ended(ran: Ran | null): number {
    if (ran !== null) {
      return ran.lost
        ? this.#report.lost(ran.ending, ran.loss ?? null)
        : this.#report.ended(this.#command[0] as string, ran.ending);
    }
    const { signal, exitCode } = this.#signals.stoppedBy ?? { signal: "a signal", exitCode: EXIT.internal };
    return this.#report.stopped(signal, exitCode);
  }

  async #reportWait(): Promise<void> {
    try {
      const info = await this.#opened.locks.inspect(this.#key);
      const holders = info?.holders ?? [];
      // The key is free and nobody else waits for it: the store is slow.
      if (holders.length === 0 && (info?.waiters ?? []).length < 2) return;
      this.#report.waiting(holders);
    } catch (error) {
      this.#report.log(
        `waiting, but the store does not answer: ${error instanceof Error ? error.message : String(error)}`,
      );
    }
  }

  async #holders(): Promise<readonly Blocker[]> {
    return (await this.#opened.locks.inspect(this.#key))?.holders ?? [];
  }
}
