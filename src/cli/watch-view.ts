// Text of `watch`: the screen for a terminal, and one line per event elsewhere.

import type { LockInfo } from "../surface.ts";
import type { Change, LockDiff } from "./lock-diff.ts";
import { LS_HEAD, lockRow } from "./lock-view.ts";
import { colorize } from "./color.ts";
import { escapeControls, formatDuration, formatName, renderTable } from "./format.ts";

/** A change of a lock, or of the store: it stopped answering, or answers again. */
export type WatchEvent =
  | Change
  | { readonly change: "unreachable"; readonly error: { readonly code: string; readonly message: string } }
  | { readonly change: "reachable"; readonly unreachableMs: number };

/** The store has not answered since then. */
export interface Outage {
  readonly since: Date;
  readonly reason: string;
}

const MOST_HOT_KEYS = 5;
/** Status line, names of the columns, number of further keys, hot keys. */
const EXTRA_LINES = 4;

/**
 * The most active keys first. Never more lines than the terminal has, or the first line would scroll away.
 */
export function renderScreen(
  at: Date,
  locks: readonly LockInfo[],
  diff: LockDiff,
  { rows, columns }: { readonly rows: number; readonly columns: number },
  outage: Outage | null,
): string {
  const held = locks.filter(({ holders }) => holders.length > 0).length;
  const waiting = locks.reduce((sum, { waiters }) => sum + (waiters?.length ?? 0), 0);
  const cut = (line: string): string => line.slice(0, Math.max(1, columns));
  const byActivity = locks.toSorted((a, b) => diff.activityOf(b.key) - diff.activityOf(a.key));
  const room = Math.max(1, rows - EXTRA_LINES - (outage === null ? 0 : 1));
  const shown = byActivity.slice(0, room);
  const hot = byActivity.filter(({ key }) => diff.activityOf(key) > 1).slice(0, MOST_HOT_KEYS);
  const [names = "", ...lines] = renderTable([LS_HEAD, ...shown.map(lockRow)])
    .trimEnd()
    .split("\n");
  const rest = byActivity.length - shown.length;
  return [
    colorize("head", cut(`${clockOf(at)}  ${held} held, ${waiting} waiting   (Ctrl-C to leave)`)),
    ...(outage === null
      ? []
      : [
          colorize(
            "danger",
            cut(`no answer since ${clockOf(outage.since)}: ${escapeControls(outage.reason)}`),
          ),
        ]),
    ...(shown.length === 0
      ? ["nothing is held or waited for"]
      : [colorize("dim", cut(names)), ...lines.map(cut)]),
    ...(rest > 0 ? [colorize("dim", `and ${rest} more`)] : []),
    ...(hot.length > 0 ? [cut(`hot: ${hot.map(({ key }) => formatName(key)).join(", ")}`)] : []),
  ].join("\n");
}

export function formatEvent(at: Date, event: WatchEvent): string {
  return `${clockOf(at)}  ${describeEvent(event)}`;
}

function describeEvent(event: WatchEvent): string {
  switch (event.change) {
    case "held":
      return `${formatName(event.key)}  held by ${formatName(event.label)}, fence ${event.fence}`;
    case "released": {
      const held = `after ${formatDuration(event.heldMs)}, fence ${event.fence}`;
      return `${formatName(event.key)}  released by ${formatName(event.label)} ${held}`;
    }
    case "waiting":
      return `${formatName(event.key)}  ${event.waiters} waiting`;
    case "revoked":
      return `${formatName(event.key)}  revoked from ${formatName(event.label)}: ${formatName(event.reason)}`;
    case "unreachable":
      return `the store does not answer: ${escapeControls(event.error.message)}`;
    default:
      return `the store answers again after ${formatDuration(event.unreachableMs)}`;
  }
}

function clockOf(at: Date): string {
  return at.toTimeString().slice(0, 8);
}
