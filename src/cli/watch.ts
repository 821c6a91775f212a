// `holdfast watch`: lists the locks again and again. At a terminal it redraws a screen; elsewhere it prints a
// line for each change. Ends with Ctrl-C, after --looks lists, or when the reader of its pipe has gone.

import { setTimeout as sleep } from "node:timers/promises";
import { LockError, type LockInfo, type Locks } from "../surface.ts";
import { openForReading, type StoreFlags } from "./options.ts";
import { print, stdout } from "./output.ts";
import { StdoutReader } from "./stdout-reader.ts";
import { LockDiff } from "./lock-diff.ts";
import { formatEvent, type Outage, renderScreen, type WatchEvent } from "./watch-view.ts";
import { toSafeJson } from "./format.ts";

export interface WatchFlags extends StoreFlags {
  readonly prefix?: string;
  readonly every?: number;
  readonly looks?: number;
}

const EVERY_MS = 1_000;
const READER_CHECK_MS = 500;
/** For a terminal that does not report its size. */
const [DEFAULT_ROWS, DEFAULT_COLUMNS] = [24, 80];
const HOME_AND_CLEAR = "\u001b[H\u001b[J";
const ALTERNATE_SCREEN = "\u001b[?1049h\u001b[?25l";
const MAIN_SCREEN = "\u001b[?25h\u001b[?1049l";

export async function watch(flags: WatchFlags): Promise<number> {
  const locks = await openForReading(flags);
  const ended = new AbortController();
  const end = (): void => ended.abort();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, end);
  stdout().once("error", end);
  const reader = new StdoutReader();
  const readerCheck = setInterval(() => reader.hasGone() && end(), READER_CHECK_MS);
  const asScreen = stdout().isTTY && flags.json !== true;
  if (asScreen) print(ALTERNATE_SCREEN);
  try {
    await poll(locks, flags, new WatchOutput(asScreen, flags.json === true), ended.signal);
    return 0;
  } finally {
    clearInterval(readerCheck);
    if (asScreen) print(MAIN_SCREEN);
    await locks.close();
  }
}

async function poll(locks: Locks, flags: WatchFlags, output: WatchOutput, ended: AbortSignal): Promise<void> {
  const { every = EVERY_MS, looks = Number.POSITIVE_INFINITY, prefix = "" } = flags;
  for (let count = 1; !ended.aborted; count += 1) {
    const sentAt = new Date();
    const slow = setInterval(() => output.showWaiting(sentAt), Math.max(every, EVERY_MS));
    try {
      output.update(await listAll(locks, prefix));
    } catch (error) {
      // A store that stops answering is an event. A store that never answered is an error.
      if (count === 1 || !LockError.is(error)) throw error;
      output.fail(error);
    } finally {
      clearInterval(slow);
    }
    if (count >= looks) return;
    await sleep(every, undefined, { signal: ended }).catch(() => {});
  }
}

async function listAll(locks: Locks, prefix: string): Promise<readonly LockInfo[]> {
  const found: LockInfo[] = [];
  for await (const info of locks.list({ prefix })) found.push(info);
  return found.toSorted((a, b) => (a.key < b.key ? -1 : 1));
}

/** The last list and how it is shown: a screen is redrawn for every list, an event is printed once. */
class WatchOutput {
  readonly #asScreen: boolean;
  readonly #asJson: boolean;
  readonly #diff = new LockDiff();
  #locks: readonly LockInfo[] = [];
  #outage: Outage | null = null;

  constructor(asScreen: boolean, asJson: boolean) {
    this.#asScreen = asScreen;
    this.#asJson = asJson;
  }

  update(locks: readonly LockInfo[]): void {
    const at = new Date();
    const outage = this.#outage;
    const reachable =
      outage === null
        ? []
        : [{ change: "reachable", unreachableMs: at.getTime() - outage.since.getTime() } as const];
    this.#outage = null;
    this.#locks = locks;
    this.#show(at, [...reachable, ...this.#diff.update(locks)]);
  }

  fail({ code, message }: LockError): void {
    const at = new Date();
    const isFirst = this.#outage === null;
    this.#outage = { since: this.#outage?.since ?? at, reason: message };
    this.#show(at, isFirst ? [{ change: "unreachable", error: { code, message } }] : []);
  }

  /** A screen without a recent answer must say so. */
  showWaiting(since: Date): void {
    if (!this.#asScreen) return;
    this.#draw(new Date(), this.#outage ?? { since, reason: "still waiting for an answer" });
  }

  #show(at: Date, events: readonly WatchEvent[]): void {
    if (!this.#asScreen) {
      for (const event of events)
        print(
          this.#asJson
            ? `${toSafeJson({ at: at.toISOString(), ...event })}\n`
            : `${formatEvent(at, event)}\n`,
        );
      return;
    }
    this.#draw(at, this.#outage);
  }

  #draw(at: Date, outage: Outage | null): void {
    const size = { rows: stdout().rows || DEFAULT_ROWS, columns: stdout().columns || DEFAULT_COLUMNS };
    print(HOME_AND_CLEAR + renderScreen(at, this.#locks, this.#diff, size, outage));
  }
}
