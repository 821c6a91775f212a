// `holdfast watch`: what is held and waited for, look after look. At a terminal a screen that is drawn anew; elsewhere a line for each
// change, so that it can be piped and kept. Reads only. Ends with Ctrl-C, or after --looks.

import { setTimeout as sleep } from "node:timers/promises";
import type { LockInfo, Locks } from "../index.ts";
import { openLocks, type StoreFlags } from "./options.ts";
import { complain, print, printJson } from "./output.ts";
import { Changes, type Change } from "./changes.ts";
import { changeLine, screen } from "./watch-view.ts";

export interface WatchFlags extends StoreFlags {
  readonly prefix?: string;
  readonly every?: number;
  readonly looks?: number;
}

const EVERY_MS = 1_000;
/** Of a terminal that does not say how large it is. */
const [ROWS, COLUMNS] = [24, 80];
const HOME_AND_CLEAR = "\u001b[H\u001b[J";
const OTHER_SCREEN = "\u001b[?1049h\u001b[?25l";
const OLD_SCREEN = "\u001b[?25h\u001b[?1049l";

export async function watch(flags: WatchFlags): Promise<number> {
  const { locks } = openLocks(flags);
  const ended = new AbortController();
  const end = (): void => ended.abort();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, end);
  const asScreen = process.stdout.isTTY && flags.json !== true;
  if (asScreen) print(OTHER_SCREEN);
  try {
    await look(locks, flags, asScreen, ended.signal);
    return 0;
  } finally {
    if (asScreen) print(OLD_SCREEN);
    await locks.close();
  }
}

async function look(locks: Locks, flags: WatchFlags, asScreen: boolean, ended: AbortSignal): Promise<void> {
  const { every = EVERY_MS, looks = Number.POSITIVE_INFINITY, prefix = "" } = flags;
  const changes = new Changes();
  for (let count = 1; !ended.aborted; count += 1) {
    try {
      const seen = await all(locks, prefix);
      show(changes.since(seen), seen, changes, flags, asScreen);
    } catch (error) {
      // A store that is away for a while is what one watches for; one that was never there is an error.
      if (count === 1) throw error;
      complain(error instanceof Error ? error.message : String(error));
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

function show(
  news: readonly Change[],
  seen: readonly LockInfo[],
  changes: Changes,
  flags: WatchFlags,
  asScreen: boolean,
): void {
  const at = new Date();
  if (asScreen)
    print(
      HOME_AND_CLEAR +
        screen(at, seen, changes, process.stdout.rows || ROWS, process.stdout.columns || COLUMNS),
    );
  else if (flags.json) for (const change of news) printJson({ at: at.toISOString(), ...change });
  else for (const change of news) print(`${changeLine(at, change)}\n`);
}
