// What a run amounts to, in numbers: counted from its history, nothing estimated.

import { beliefs, type Belief } from "../sim/beliefs.ts";
import { closings } from "../sim/checkers/shutdown.ts";
import { type History, ofType } from "../sim/history.ts";
import type { Histories, Span } from "./histories.ts";
import type { Expected, Verdict } from "./verdict.ts";

export interface Figures {
  readonly grants: number;
  /** Leases that ended against their holder's will: told lost, or their holder was killed. */
  readonly losses: number;
  readonly killedHolders: number;
  readonly refusals: number;
  readonly expected: Expected;
  /** P1. Allowed where the store is expected to be fenced, not safe. */
  readonly overlaps: number;
  /** P3. */
  readonly fenceErrors: number;
  readonly violations: number;
  readonly strikes: number;
  readonly staleWritesRefused: number;
  /** What the guard is for: the same faults on a register without one. */
  readonly lostUpdatesWithoutGuard: number;
  /** From the fault that hit a holder until somebody who waited had its key. */
  readonly longestRecoveryMs: number;
  /** Of clients that nobody had stopped. */
  readonly longestLoopDelayMs: number;
  /** Clients that closed their locks in the middle of their work; absent in results from before 0.2. */
  readonly closes?: number;
  /** What the slowest of them took beyond its drain, while its process ran. */
  readonly longestCloseMs?: number;
}

/** The first turn after a pause belongs to the pause. */
const AROUND_MS = 50;

export function figuresOf(
  { history, violations, expected, overlaps }: Verdict,
  histories: Histories,
): Figures {
  const killed = beliefs(history).filter((belief) => belief.ended === "crashed").length;
  const touches = ofType(history, "touched");
  const broken = (promise: string): number => violations.filter((one) => one.promise === promise).length;
  return {
    grants: ofType(history, "granted").length,
    losses: ofType(history, "lost").length + killed,
    killedHolders: killed,
    refusals: ofType(history, "refused").length,
    expected,
    overlaps,
    fenceErrors: broken("P3"),
    violations: violations.length,
    strikes: ofType(history, "fault").length,
    staleWritesRefused: touches.filter((touch) => !touch.accepted).length,
    lostUpdatesWithoutGuard: touches.filter(
      ({ guarded, write, before, after }) => !guarded && write && after !== before + 1,
    ).length,
    longestRecoveryMs: Math.round(longestRecovery(beliefs(history), histories)),
    longestLoopDelayMs: Math.round(longestLoopDelay(histories)),
    ...closesOf(history),
  };
}

function closesOf(history: History): Pick<Figures, "closes" | "longestCloseMs"> {
  const beyondMs = closings(history).map(({ tookMs, drainMs }) => Math.max(0, tookMs - drainMs));
  return { closes: beyondMs.length, longestCloseMs: Math.round(Math.max(0, ...beyondMs)) };
}

function longestRecovery(all: readonly Belief[], { struck, crashed }: Histories): number {
  const strikes = [...struck.map(({ client, from }) => ({ client, at: from })), ...crashed];
  const byKey = new Map<string, Belief[]>();
  for (const belief of all)
    for (const key of belief.ask.keys) byKey.set(key, [...(byKey.get(key) ?? []), belief]);
  const hit = (belief: Belief): number | undefined =>
    strikes.find(({ client, at }) => client === belief.client && belief.from <= at && at <= belief.to)?.at;
  let longest = 0;
  for (const belief of all) {
    const at = hit(belief);
    if (at === undefined || belief.ended === "released" || !exclusive(belief)) continue;
    for (const key of belief.ask.keys) {
      const next = byKey.get(key)?.find((one) => one.from > at && one.client !== belief.client);
      if (next !== undefined) longest = Math.max(longest, next.from - Math.max(at, next.ask.at));
    }
  }
  return longest;
}

const exclusive = ({ ask }: Belief): boolean => ask.mode === "exclusive" && ask.limit === 1;

function longestLoopDelay({ stalls, struck }: Histories): number {
  const onPurpose = (stall: Span): boolean =>
    struck.some(
      ({ client, from, to }) =>
        client === stall.client && stall.from <= to + AROUND_MS && from - AROUND_MS <= stall.to,
    );
  return stalls.filter((stall) => !onPurpose(stall)).reduce((ms, { from, to }) => Math.max(ms, to - from), 0);
}
