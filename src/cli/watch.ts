// `holdfast watch`: what is held and waited for, look after look. At a terminal a screen that is drawn
// anew; elsewhere a line for each change, so that it can be piped and kept. Reads only. Ends with Ctrl-C,
// after --looks, or with its reader.

import { setTimeout as sleep } from "node:timers/promises";
import { LockError, type LockInfo, type Locks } from "../surface.ts";
import { openToLook, type StoreFlags } from "./options.ts";
import { print, stdout } from "./output.ts";
import { StdoutReader } from "./stdout-reader.ts";
import { Changes } from "./changes.ts";
import { type Away, type News, newsLine, screen } from "./watch-view.ts";
import { json } from "./words.ts";

export interface WatchFlags extends StoreFlags {
  readonly prefix?: string;
  readonly every?: number;
  readonly looks?: number;
}

const EVERY_MS = 1_000;
const READER_CHECK_MS = 500;
/** Of a terminal that does not say how large it is. */
const [ROWS, COLUMNS] = [24, 80];
const HOME_AND_CLEAR = "\u001b[H\u001b[J";
const OTHER_SCREEN = "\u001b[?1049h\u001b[?25l";
const OLD_SCREEN = "\u001b[?25h\u001b[?1049l";

export async function watch(flags: WatchFlags): Promise<number> {
  const locks = await openToLook(flags);
  const ended = new AbortController();
  const end = (): void => ended.abort();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, end);
  stdout().once("error", end);
  const reader = new StdoutReader();
  const readerCheck = setInterval(() => reader.hasGone() && end(), READER_CHECK_MS);
  const asScreen = stdout().isTTY && flags.json !== true;
  if (asScreen) print(OTHER_SCREEN);
  try {
    await look(locks, flags, new Watching(asScreen, flags.json === true), ended.signal);
    return 0;
  } finally {
    clearInterval(readerCheck);
    if (asScreen) print(OLD_SCREEN);
    await locks.close();
  }
}

async function look(locks: Locks, flags: WatchFlags, watching: Watching, ended: AbortSignal): Promise<void> {
  const { every = EVERY_MS, looks = Number.POSITIVE_INFINITY, prefix = "" } = flags;
  for (let count = 1; !ended.aborted; count += 1) {
    const sentAt = new Date();
    const slow = setInterval(() => watching.waits(sentAt), Math.max(every, EVERY_MS));
    try {
      watching.saw(await all(locks, prefix));
    } catch (error) {
      // A store that is away for a while is what one watches for; one that was never there is an error.
      if (count === 1 || !LockError.is(error)) throw error;
      watching.missed(error);
    } finally {
      clearInterval(slow);
    }
    if (count >= looks) return;
    await sleep(every, undefined, { signal: ended }).catch(() => {});
  }
}

async function all(locks: Locks, prefix: string): Promise<readonly LockInfo[]> {
  const seen: LockInfo[] = [];
  for await (const info of locks.list({ prefix })) seen.push(info);
  return seen.toSorted((a, b) => (a.key < b.key ? -1 : 1));
}

/** What was seen so far, and how it is shown. A screen is drawn at every look, a line is said once. */
class Watching {
  readonly #asScreen: boolean;
  readonly #asJson: boolean;
  readonly #changes = new Changes();
  #seen: readonly LockInfo[] = [];
  /** Since when the store cannot be asked. */
  #away: Away | null = null;

  constructor(asScreen: boolean, asJson: boolean) {
    this.#asScreen = asScreen;
    this.#asJson = asJson;
  }

  saw(seen: readonly LockInfo[]): void {
    const at = new Date();
    const back =
      this.#away === null
        ? []
        : [{ change: "back", awayMs: at.getTime() - this.#away.since.getTime() } as const];
    this.#away = null;
    this.#seen = seen;
    this.#show(at, [...back, ...this.#changes.since(seen)]);
  }

  missed({ code, message }: LockError): void {
    const at = new Date();
    const first = this.#away === null;
    this.#away = { since: this.#away?.since ?? at, why: message };
    this.#show(at, first ? [{ change: "away", error: { code, message } }] : []);
  }

  /** A screen that stands still must say so; of lines the answer will tell. */
  waits(since: Date): void {
    if (!this.#asScreen) return;
    this.#draw(new Date(), this.#away ?? { since, why: "still waiting for an answer" });
  }

  #show(at: Date, news: readonly News[]): void {
    if (!this.#asScreen) {
      for (const one of news)
        print(this.#asJson ? `${json({ at: at.toISOString(), ...one })}\n` : `${newsLine(at, one)}\n`);
      return;
    }
    this.#draw(at, this.#away);
  }

  #draw(at: Date, away: Away | null): void {
    const size = { rows: stdout().rows || ROWS, columns: stdout().columns || COLUMNS };
    print(HOME_AND_CLEAR + screen(at, this.#seen, this.#changes, size, away));
  }
}
