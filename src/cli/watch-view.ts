// The screen and the lines of `watch`. Text only: nothing here looks at a store or at a clock.

import type { LockInfo } from "../surface.ts";
import type { Change, Changes } from "./changes.ts";
import { LS_HEAD, lockRow } from "./lock-view.ts";
import { paint } from "./paint.ts";
import { clean, name, table, time } from "./words.ts";

/** Also of the store itself: that it cannot be asked, and that it answers again. */
export type News =
  | Change
  | { readonly change: "away"; readonly error: { readonly code: string; readonly message: string } }
  | { readonly change: "back"; readonly awayMs: number };

export interface Away {
  readonly since: Date;
  readonly why: string;
}

const HOTTEST = 5;
/** Head, names of the columns, how many more there are, hot keys. */
const LINES_AROUND = 4;

/**
 * The hottest keys first; what does not fit is counted. Never more lines than the terminal has: the head
 * would be lost.
 */
export function screen(
  at: Date,
  seen: readonly LockInfo[],
  changes: Changes,
  { rows, columns }: { readonly rows: number; readonly columns: number },
  away: Away | null,
): string {
  const held = seen.filter(({ holders }) => holders.length > 0).length;
  const waiting = seen.reduce((sum, { waiters }) => sum + (waiters?.length ?? 0), 0);
  const cut = (line: string): string => line.slice(0, Math.max(1, columns));
  const hottest = [...seen].toSorted((a, b) => changes.heatOf(b.key) - changes.heatOf(a.key));
  const room = Math.max(1, rows - LINES_AROUND - (away === null ? 0 : 1));
  const shown = hottest.slice(0, room);
  const hot = hottest.filter(({ key }) => changes.heatOf(key) > 1).slice(0, HOTTEST);
  const [names = "", ...lines] = table([LS_HEAD, ...shown.map(lockRow)])
    .trimEnd()
    .split("\n");
  const rest = hottest.length - shown.length;
  return [
    paint("head", cut(`${clockOf(at)}  ${held} held, ${waiting} waiting   (Ctrl-C to leave)`)),
    ...(away === null
      ? []
      : [paint("danger", cut(`not answered since ${clockOf(away.since)}: ${clean(away.why)}`))]),
    ...(shown.length === 0
      ? ["nothing is held or waited for"]
      : [paint("dim", cut(names)), ...lines.map(cut)]),
    ...(rest > 0 ? [paint("dim", `and ${rest} more`)] : []),
    ...(hot.length > 0 ? [cut(`hot: ${hot.map(({ key }) => name(key)).join(", ")}`)] : []),
  ].join("\n");
}

export function newsLine(at: Date, news: News): string {
  return `${clockOf(at)}  ${words(news)}`;
}

function words(news: News): string {
  switch (news.change) {
    case "held":
      return `${name(news.key)}  held by ${name(news.label)}, fence ${news.fence}`;
    case "let-go":
      return `${name(news.key)}  let go by ${name(news.label)} after ${time(news.heldMs)}, fence ${news.fence}`;
    case "waiting":
      return `${name(news.key)}  ${news.waiters} waiting`;
    case "revoked":
      return `${name(news.key)}  revoked from ${name(news.label)}: ${name(news.reason)}`;
    case "away":
      return `the store does not answer: ${clean(news.error.message)}`;
    default:
      return `the store answers again after ${time(news.awayMs)}`;
  }
}

function clockOf(at: Date): string {
  return at.toTimeString().slice(0, 8);
}
