// The judgement of a run: the checkers that the simulator uses, over a history made by real processes, and a few things
// that only real processes can get wrong. It must never excuse anything that its client was awake for.

import { exclusion } from "../sim/checkers/exclusion.ts";
import { check, type NamedViolation } from "../sim/checkers/index.ts";
import { stoppedMs } from "../sim/stops.ts";
import type { History, RunContext } from "../sim/history.ts";
import { callTimeoutMs } from "../src/core/util/store-call.ts";
import { defaultGraceMs } from "../src/core/lease/validity-window.ts";
import type { Guarantees } from "../src/index.ts";
import type { Histories } from "./histories.ts";
import type { Remark } from "./journal.ts";
import { clockOf } from "./plugins/client-wall-clock.ts";
import { type Plugin, struckBy } from "./plugins/plugin.ts";
import type { Target } from "./targets/target.ts";

/** Timers of a busy machine are late by so much without anybody having been stopped. Exclusion and fences have no slack. */
const SLACK_MS = 30;
/** A pause that begins, or a clock that is set, between the store's grant and the client's first look at it. */
const JUST_BEFORE_MS = 50;
/** The default hand-off slice, and the machine's own lateness. */
const HAND_OFF_MS: number = 10 + SLACK_MS;

/** What a store may make of a fault: nothing shows, or holders overlap and the fence keeps the resource safe. */
export type Expected = "safe" | "fenced";

export interface Verdict {
  readonly history: History;
  readonly expected: Expected;
  /** Of two holders that believed at once. Violations only where the store is expected to be safe. */
  readonly overlaps: number;
  readonly violations: readonly NamedViolation[];
}

/** Of one fault, or of several that strike in turn: those are fenced as soon as one of them is. */
export function expected({ name, survives, parts }: Plugin, target: Target): Expected {
  if (parts !== undefined)
    return parts.some((part) => expected(part, target) === "fenced") ? "fenced" : "safe";
  if (target.fenced?.includes(name)) return "fenced";
  const declared = [...target.guarantees.survives, ...(target.survives ?? [])];
  return survives === undefined || declared.includes(survives) ? "safe" : "fenced";
}

/** When a fault first struck that may break exclusion here: until then nothing excuses an overlap. */
export function safeUntilMs(plugin: Plugin, target: Target, { events }: Histories): number {
  const parts = plugin.parts?.filter((part) => expected(part, target) === "fenced");
  const strike = events.find(
    (event) => event.type === "fault" && (parts?.some((part) => struckBy(event.what, part)) ?? true),
  );
  return strike?.at ?? Number.POSITIVE_INFINITY;
}

/** What is known of a run beside its history. */
export interface Circumstances {
  readonly expected?: Expected;
  /** In a run that is fenced. */
  readonly safeUntilMs?: number;
  readonly setsClocks?: boolean;
  /** As the clients were told; otherwise the default of each ttl. */
  readonly graceMs?: number | undefined;
}

export function judge(histories: Histories, guarantees: Guarantees, about: Circumstances = {}): Verdict {
  const { expected: what = "safe", setsClocks = false, graceMs, safeUntilMs: untilMs = 0 } = about;
  const context: RunContext = {
    ...contextOf(guarantees, what === "fenced", (ttlMs) => graceMs ?? defaultGraceMs(ttlMs)),
    // Where the store's clock is this machine's own, no other clock is looked at.
    clocksSet: setsClocks && guarantees.clock === "store",
    machineStalls: histories.machineStalls.map(({ from, to }) => [from, to]),
  };
  const history: History = { events: histories.events, context };
  const overlaps = exclusion({ ...history, context: { ...context, forgetful: false } });
  const early = what === "fenced" ? overlaps.filter(({ at }) => at < untilMs) : [];
  const violations = [
    ...check(history),
    ...early.map((one) => ({ ...one, checker: "exclusion" })),
    ...histories.remarks.flatMap((remark) => remarked(remark, history)),
  ];
  return { history, violations, expected: what, overlaps: overlaps.length };
}

function contextOf(
  guarantees: Guarantees,
  forgetful: boolean,
  graceOf: (ttlMs: number) => number,
): RunContext {
  const { freeAfterCrashMs, freeLateMs = 0, order, pollMs, claimMs } = guarantees;
  return {
    forgetful,
    // A holder may hand its lease on until it hears that the store has forgotten it.
    handOffBlurMs: forgetful ? HAND_OFF_MS : 0,
    calm: false,
    roundTripMs: 0,
    fifo: order === "fifo",
    pollMs,
    claimMs,
    freeAfterCrashMs: (ttlMs) =>
      (freeAfterCrashMs === "lease" ? ttlMs + graceOf(ttlMs) : freeAfterCrashMs) + freeLateMs,
    abandonMs: 10_000,
    slackMs: SLACK_MS,
    callTimeoutMs,
  };
}

function remarked({ type, at, client, what }: Remark, history: History): NamedViolation[] {
  const found = { checker: type, at, what: `${client}: ${what}` };
  if (type === "outlived") return [{ ...found, promise: "P7" }];
  if (type === "unnamed-error" || type === "ended-by-itself") return [{ ...found, promise: "P17" }];
  // Handed out after its end: only to a client that did not run when it was, or whose clock was set just then.
  const stopped = stoppedMs(history, client, at - JUST_BEFORE_MS, at + JUST_BEFORE_MS) > 0;
  return stopped || clockWasSet(history, client, at) ? [] : [{ ...found, promise: "P8" }];
}

function clockWasSet({ events, context }: History, client: string, at: number): boolean {
  return (
    context.clocksSet === true &&
    events.some(
      (event) =>
        event.type === "fault" &&
        event.what.startsWith(clockOf(client)) &&
        event.at <= at &&
        at - event.at < JUST_BEFORE_MS,
    )
  );
}
