// Many journals, one history. The only place where what processes wrote is put in order; it drops nothing but a last line
// that a kill cut in half, and moves nothing but a death, which cannot have come before the dead one's last words.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { ClientState, HistoryEvent } from "../sim/history.ts";
import type { JournalLine, Remark, Stall } from "./journal.ts";

export interface Span {
  readonly client: string;
  readonly from: number;
  readonly to: number;
}

export interface Histories {
  /** In order of time, with one pair of paused and resumed for each time in which a client did not run. */
  readonly events: readonly HistoryEvent[];
  readonly remarks: readonly Remark[];
  /** When clients were stopped or blocked on purpose. */
  readonly struck: readonly Span[];
  readonly crashed: readonly ClientState[];
  readonly stalls: readonly Span[];
  /** When the parent itself did not run, which nobody stops: the machine stood still, and the servers with it. */
  readonly machineStalls: readonly Span[];
}

/** The name under which the parent writes. */
export const NEMESIS = "nemesis";

const REMARKS: ReadonlySet<string> = new Set<Remark["type"]>([
  "outlived",
  "over-at-grant",
  "unnamed-error",
  "ended-by-itself",
]);

export function readHistories(folder: string): Histories {
  const files = readdirSync(folder).filter((name) => name.endsWith(".jsonl"));
  return order(files.sort().flatMap((name) => linesOf(readFileSync(join(folder, name), "utf8"))));
}

export function linesOf(text: string): JournalLine[] {
  const whole = text.slice(0, text.lastIndexOf("\n") + 1);
  return whole
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as JournalLine);
}

/** Lines of one process must come in the order in which it wrote them. */
export function order(lines: readonly JournalLine[]): Histories {
  const all = lines.filter(isStall).map(({ client, at, untilMs }) => ({ client, from: at, to: untilMs }));
  const stalls = all.filter(({ client }) => client !== NEMESIS);
  const remarks = lines.filter((line): line is Remark => REMARKS.has(line.type));
  const plain = lines.filter((line): line is HistoryEvent => !isStall(line) && !REMARKS.has(line.type));
  const struck = spansOf(plain);
  const last = lastWords(plain);
  const machineStalls = all.filter(({ client }) => client === NEMESIS);
  const unsaid = machineStalls.flatMap((stall) => unsaidStalls(stall, plain, last));
  const others = plain
    .filter(({ type }) => type !== "paused" && type !== "resumed")
    .map((event) =>
      event.type === "crashed" ? { ...event, at: Math.max(event.at, last.get(event.client) ?? 0) } : event,
    );
  const events = [...others, ...statesOf([...struck, ...stalls, ...unsaid])].sort((a, b) => a.at - b.at);
  const crashed = events.filter((event): event is ClientState => event.type === "crashed");
  return { events, remarks, struck, crashed, stalls, machineStalls };
}

const isStall = (line: JournalLine): line is Stall => line.type === "stall";

const OTHERS_WORDS: ReadonlySet<string> = new Set(["touched", "crashed", "paused", "resumed"]);

/** When each client last wrote something itself. */
function lastWords(events: readonly HistoryEvent[]): Map<string, number> {
  const last = new Map<string, number>();
  for (const event of events) {
    if (!("client" in event) || OTHERS_WORDS.has(event.type)) continue;
    last.set(event.client, Math.max(event.at, last.get(event.client) ?? 0));
  }
  return last;
}

/** Who was killed before it could say that the whole machine stood still: the parent's own stall is its witness. */
function unsaidStalls(
  stall: Span,
  events: readonly HistoryEvent[],
  last: ReadonlyMap<string, number>,
): Span[] {
  return events
    .filter((event): event is ClientState => event.type === "crashed")
    .filter(({ at, client }) => stall.from <= at && (last.get(client) ?? 0) <= stall.to)
    .map(({ client }) => ({ ...stall, client }));
}

/** From each `paused` to the `resumed` that follows; to the end of time where none does. */
function spansOf(events: readonly HistoryEvent[]): Span[] {
  const states = events
    .filter((event): event is ClientState => event.type === "paused" || event.type === "resumed")
    .sort((a, b) => a.at - b.at);
  return states
    .filter((event) => event.type === "paused")
    .map(({ client, at }) => {
      const end = states.find((one) => one.type === "resumed" && one.client === client && one.at >= at);
      return { client, from: at, to: end?.at ?? Number.POSITIVE_INFINITY };
    });
}

/** Overlapping spans of one client become one pair of events. */
function statesOf(spans: readonly Span[]): ClientState[] {
  const states: ClientState[] = [];
  const reached = new Map<string, number>();
  const close = (client: string, at: number): void => {
    if (at !== Number.POSITIVE_INFINITY) states.push({ type: "resumed", at, client });
  };
  for (const { client, from, to } of [...spans].sort((a, b) => a.from - b.from)) {
    const end = reached.get(client);
    if (end === undefined || from > end) {
      if (end !== undefined) close(client, end);
      states.push({ type: "paused", at: from, client });
    }
    reached.set(client, Math.max(to, end ?? to));
  }
  for (const [client, at] of reached) close(client, at);
  return states;
}
