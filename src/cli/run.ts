// `holdfast run KEY -- COMMAND`: holds KEY while COMMAND runs.
// 1. Wait for the key; a signal ends the wait.
// 2. Start the watchdog, then the child, both with the lifeline; pass signals on.
// 3. When the child has ended, and all that it left in the background, let go of the key and end as the
// child did.
// The key is never held without a child for longer than it takes to start one, and a child never runs
// without the key.

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
import { HELD_VARIABLE, heldEntry, type KeyPlace, refuseNested, withEntry } from "./enclosing.ts";
import { CommandError, EXIT } from "./exit-codes.ts";
import { LossGuard, type OnLost } from "./loss-guard.ts";
import { DEFAULT_NAMESPACE, type OpenedLocks, openLocks, type StoreFlags, storeUrl } from "./options.ts";
import { type InTheWay, RunReport } from "./run-report.ts";
import { Signals } from "./signals.ts";
import { Watchdog } from "./watchdog.ts";
import { name } from "./words.ts";

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

/** A wait that takes longer is mentioned, once. */
const MENTION_WAIT_MS = 1_000;

/** Processes that COMMAND left running are mentioned after this time. Many end together with it. */
const MENTION_SURVIVORS_MS = 250;
const SHORTEST_NAP_MS = 10;
const LONGEST_NAP_MS = 500;

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
    return await new Run(key, command, flags, opened, report, signals).go();
  } catch (error) {
    return report.failed(error);
  } finally {
    await opened?.locks.close();
  }
}

/** @throws CommandError if nothing can be written to it: a typing error must not be found after COMMAND. */
function claimReportFd(fd: number): void {
  if (!isForReport(fd))
    throw new CommandError(`--json-to names descriptor ${fd}, which is not open: say ${fd}>FILE`, EXIT.usage);
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

  /** The exit code. */
  async go(): Promise<number> {
    const mention = setTimeout(() => void this.#mentionWait(), MENTION_WAIT_MS);
    let ran: Ran | null = null;
    const work = async (lease: Lease): Promise<void> => {
      clearTimeout(mention);
      this.#report.granted(lease);
      if (this.#signals.stoppedBy === null) ran = await this.#runChild(lease);
    };
    try {
      if (!(await this.#hold(work))) return await this.#busy(null);
    } catch (error) {
      if (LockError.is(error) && error.code === "ERR_LOCK_TIMEOUT") return await this.#busy(error);
      if (this.#signals.stoppedBy === null && ran === null) throw error;
    } finally {
      clearTimeout(mention);
    }
    return this.#ended(ran);
  }

  /** False when --at-least found the key taken. */
  async #hold(work: (lease: Lease) => Promise<void>): Promise<boolean> {
    const { locks } = this.#opened;
    const { atLeast } = this.#flags;
    await refuseNested(locks, this.#place(), process.env[HELD_VARIABLE]);
    if (atLeast !== undefined) return (await locks.once(this.#key, { ...this.#wish(), atLeast }, work)).ran;
    const lease = await locks.acquire(this.#key, this.#wish());
    try {
      await work(lease);
    } finally {
      await lease.release().catch((error: unknown) => {
        this.#report.say(error instanceof Error ? error.message : String(error));
      });
    }
    return true;
  }

  #wish(): AcquireOptions {
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
    if (process.pid === 1) this.#report.say(NO_REAPER);
    const watchdog = Watchdog.start(name(this.#key), lifeline);
    try {
      const mark = heldEntry(this.#place(), lease.fence);
      const env = {
        ...process.env,
        HOLDFAST_KEY: this.#key,
        HOLDFAST_FENCE: String(lease.fence),
        HOLDFAST_LABEL: lease.label,
        [HELD_VARIABLE]: withEntry(process.env[HELD_VARIABLE], mark),
      };
      // The last look at the clock: this process may have been stopped since the grant.
      lease.assertHeld();
      const obstacle = Child.obstacle(this.#command, process.env["PATH"]);
      if (obstacle !== null) return { ending: obstacle, lost: false };
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
      child.open();
      this.#signals.passTo(child, interactive);
      const guard = new LossGuard({
        locks: this.#opened.locks,
        lease,
        child,
        watchdog,
        onLost: this.#flags.onLost,
        say: (text) => this.#report.say(text),
      });
      const ending = await child.ended;
      await this.#outlast(child);
      this.#signals.ignore();
      return { ending, lost: guard.close(), loss: guard.loss };
    } finally {
      watchdog.stop();
    }
  }

  /** Keeps the key while what COMMAND left in the background runs on, as flock(1) does. */
  async #outlast(child: Child): Promise<void> {
    const startMs = performance.now();
    let told = false;
    for (let napMs = SHORTEST_NAP_MS; ; napMs = Math.min(LONGEST_NAP_MS, napMs * 2)) {
      const left = child.survivors();
      if (left.length === 0) return;
      if (!told && performance.now() - startMs > MENTION_SURVIVORS_MS) {
        told = true;
        this.#report.outlived(left);
      }
      await sleep(napMs);
    }
  }

  #place(): KeyPlace {
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

  async #mentionWait(): Promise<void> {
    try {
      const info = await this.#opened.locks.inspect(this.#key);
      const holders = info?.holders ?? [];
      // The key is free, and nobody else waits for it: only the store is slow.
      if (holders.length === 0 && (info?.waiters ?? []).length < 2) return;
      this.#report.waiting(holders);
    } catch (error) {
      this.#report.say(
        `waiting, but the store cannot be asked: ${error instanceof Error ? error.message : String(error)}`,
      );
    }
  }

  async #holders(): Promise<readonly InTheWay[]> {
    return (await this.#opened.locks.inspect(this.#key))?.holders ?? [];
  }
}
