// The judgement of a run: the checkers that the simulator uses, over a history made by real processes, and a few things
// that only real processes can get wrong. It must never excuse anything that its client was awake for.

import { check, type NamedViolation } from "../sim/checkers/index.ts";
import { stoppedMs } from "../sim/stops.ts";
import type { History, RunContext } from "../sim/history.ts";
import { callTimeoutMs } from "../src/core/call.ts";
import { defaultGraceMs } from "../src/core/window.ts";
import type { Guarantees } from "../src/index.ts";
import type { Histories } from "./histories.ts";
import type { Remark } from "./journal.ts";

/** Timers of a busy machine are late by so much without anybody having been stopped. Exclusion and fences have no slack. */
const SLACK_MS = 30;
/** A pause that begins between the store's grant and the client's first look at it. */
const JUST_BEFORE_MS = 50;

export interface Verdict {
  readonly history: History;
  readonly violations: readonly NamedViolation[];
}

export function judge(histories: Histories, guarantees: Guarantees): Verdict {
  const history: History = { events: histories.events, context: contextOf(guarantees) };
  const violations = [...check(history), ...histories.remarks.flatMap((remark) => remarked(remark, history))];
  return { history, violations };
}

function contextOf(guarantees: Guarantees): RunContext {
  const { freeAfterCrashMs, order, pollMs, claimMs } = guarantees;
  return {
    forgetful: false,
    fifo: order === "fifo",
    pollMs,
    claimMs,
    freeAfterCrashMs: (ttlMs) =>
      freeAfterCrashMs === "lease" ? ttlMs + defaultGraceMs(ttlMs) : freeAfterCrashMs,
    abandonMs: 10_000,
    slackMs: SLACK_MS,
    callTimeoutMs,
  };
}

function remarked({ type, at, client, what }: Remark, history: History): NamedViolation[] {
  const found = { checker: type, at, what: `${client}: ${what}` };
  if (type === "outlived") return [{ ...found, promise: "P7" }];
  if (type === "unnamed-error" || type === "ended-by-itself") return [{ ...found, promise: "P17" }];
  // Handed out after its end: only to a client that did not run when it was.
  const stopped = stoppedMs(history, client, at - JUST_BEFORE_MS, at + JUST_BEFORE_MS) > 0;
  return stopped ? [] : [{ ...found, promise: "P8" }];
}
