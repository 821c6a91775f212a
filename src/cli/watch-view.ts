// The screen and the lines of `watch`. Text only: nothing here looks at a store or at a clock.

import type { LockInfo } from "../index.ts";
import type { Change, Changes } from "./changes.ts";
import { LS_HEAD, lockRow } from "./lock-view.ts";
import { paint } from "./paint.ts";
import { name, table, time } from "./words.ts";

const HOTTEST = 5;
const LINES_AROUND = 4;

/** The hottest keys first; what does not fit is counted. */
export function screen(
  at: Date,
  seen: readonly LockInfo[],
  changes: Changes,
  rows: number,
  columns: number,
): string {
  const held = seen.filter(({ holders }) => holders.length > 0).length;
  const waiting = seen.reduce((sum, { waiters }) => sum + (waiters?.length ?? 0), 0);
  const head = `${clockOf(at)}  ${held} held, ${waiting} waiting   (Ctrl-C to leave)`;
  const hottest = [...seen].toSorted((a, b) => changes.heatOf(b.key) - changes.heatOf(a.key));
  const room = Math.max(1, rows - LINES_AROUND);
  const shown = hottest.slice(0, room);
  const hot = hottest.filter(({ key }) => changes.heatOf(key) > 1).slice(0, HOTTEST);
  const lines = table([LS_HEAD, ...shown.map(lockRow)])
    .trimEnd()
    .split("\n");
  const rest = hottest.length - shown.length;
  return [
    paint("head", cut(head, columns)),
    paint("dim", cut(lines[0] as string, columns)),
    ...lines.slice(1).map((line) => cut(line, columns)),
    ...(rest > 0 ? [paint("dim", `and ${rest} more`)] : []),
    ...(hot.length > 0 ? [cut(`hot: ${hot.map(({ key }) => name(key)).join(", ")}`, columns)] : []),
    "",
  ].join("\n");
}

const cut = (line: string, columns: number): string => line.slice(0, Math.max(1, columns));

export function changeLine(at: Date, change: Change): string {
  return `${clockOf(at)}  ${name(change.key)}  ${words(change)}`;
}

function words(change: Change): string {
  switch (change.change) {
    case "held":
      return `held by ${name(change.label)}, fence ${change.fence}`;
    case "let-go":
      return `let go by ${name(change.label)} after ${time(change.heldMs)}, fence ${change.fence}`;
    case "waiting":
      return `${change.waiters} waiting`;
    default:
      return `revoked from ${name(change.label)}: ${name(change.reason)}`;
  }
}

function clockOf(at: Date): string {
  return at.toTimeString().slice(0, 8);
}
