// `holdfast doctor`: checks whether a store is safe to lock on. Prints the findings of the store, the time of
// a call against the ttl, and the guarantees. A store that cannot be opened is a finding too. Exit code 69
// after a danger; with --strict, 1 after a warning.

import { type Finding, type Guarantees, LockError, type Locks } from "../surface.ts";
import { describe, EXIT, exitCodeOf } from "./exit-codes.ts";
import { openForReading, type StoreFlags, storeUrl } from "./options.ts";
import { print, printJson } from "./output.ts";
import { colorize } from "./color.ts";
import { escapeControls, formatDuration, redactUrl } from "./format.ts";

export interface DoctorFlags extends StoreFlags {
  readonly ttl?: number;
  readonly strict?: true;
}

interface Examined {
  readonly findings: readonly Finding[];
  /** Null if no call has succeeded. */
  readonly callMs: number | null;
}

const DEFAULT_TTL_MS = 30_000;
const CALLS = 20;
/**
 * A ttl must be as long as this many calls: renewal starts at a third of it, and failed calls are retried.
 */
const CALLS_PER_TTL = 30;
const WEIGHT = { danger: 2, warning: 1, info: 0 } as const;
/** The exit code for a warning with --strict. */
const EXIT_WARNING = 1;
const KEY = "holdfast:doctor";

export async function doctor(flags: DoctorFlags): Promise<number> {
  const locks = await openForReading(flags);
  try {
    const ttlMs = flags.ttl ?? DEFAULT_TTL_MS;
    const { findings, callMs } = await examine(locks, ttlMs);
    const store = redactUrl(storeUrl(flags));
    const { guarantees } = locks;
    if (flags.json) printJson({ store, findings, callMs, ttlMs, guarantees });
    else {
      const lines = [...renderFindings(store, findings), ...renderGuarantees(callMs, ttlMs, guarantees)];
      print(`${lines.join("\n")}\n`);
    }
    return exitCodeFor(findings, flags.strict === true);
  } finally {
    await locks.close();
  }
}

/** The findings are sorted, the worst first. */
async function examine(locks: Locks, ttlMs: number): Promise<Examined> {
  const found: Finding[] = [];
  let callMs: number | null = null;
  try {
    found.push(...(await locks.check()));
    callMs = await roundTrip(locks);
    found.push(...findSlowCalls(callMs, ttlMs));
  } catch (error) {
    if (!LockError.is(error) || exitCodeOf(error) !== EXIT.unavailable) throw error;
    found.push(findingOf(error));
  }
  return { findings: found.toSorted((a, b) => weight(b) - weight(a)), callMs };
}

const weight = ({ level }: Finding): number => WEIGHT[level];

function exitCodeFor(findings: readonly Finding[], isStrict: boolean): number {
  const has = (wanted: Finding["level"]): boolean => findings.some(({ level }) => level === wanted);
  if (has("danger")) return EXIT.unavailable;
  return isStrict && has("warning") ? EXIT_WARNING : 0;
}

/** The median time of a read of an unused key. */
async function roundTrip(locks: Locks): Promise<number> {
  const took: number[] = [];
  for (let call = 0; call < CALLS; call += 1) {
    const startMs = performance.now();
    await locks.inspect(KEY);
    took.push(performance.now() - startMs);
  }
  return Number((took.toSorted((a, b) => a - b)[CALLS / 2] as number).toFixed(3));
}

const FINDING_IDS: Readonly<Record<string, string>> = {
  ERR_STORE_UNSAFE: "unsafe",
  ERR_LOCK_UNSUPPORTED: "unsupported",
  ERR_LOCK_QUORUM: "no-quorum",
};

function findingOf(error: LockError): Finding {
  const { fix } = error as { readonly fix?: unknown };
  return {
    id: FINDING_IDS[error.code] ?? "unavailable",
    level: "danger",
    what: describe(error),
    why: "nothing can be locked here, and the other checks could not run",
    fix: typeof fix === "string" ? fix : "correct the cause, or --store, and run doctor again",
  };
}

function findSlowCalls(callMs: number, ttlMs: number): Finding[] {
  if (callMs * CALLS_PER_TTL <= ttlMs) return [];
  return [
    {
      id: "ttl-too-short",
      level: "warning",
      what: `a call takes ${callMs.toFixed(1)} ms and the ttl is ${formatDuration(ttlMs)}`,
      why: "renewals are calls: a few late ones lose the lease although its holder lives",
      fix: `use a ttl of at least ${formatDuration(callMs * CALLS_PER_TTL)}, or a faster store`,
    },
  ];
}

const LEVEL_WIDTH = "warning".length;

/** Findings that differ only in their node share one entry. */
function renderFindings(store: string, findings: readonly Finding[]): readonly string[] {
  const byKind = new Map<string, Finding[]>();
  for (const one of findings) {
    const kind = JSON.stringify([one.level, one.id, one.why, one.fix]);
    byKind.set(kind, [...(byKind.get(kind) ?? []), one]);
  }
  const groups = [...byKind.values()];
  return [
    `${store.replace(/:$/, "")}: ${summarize(groups.map(([one]) => (one as Finding).level))}`,
    ...groups.flatMap(renderGroup),
  ];
}

function renderGroup(group: readonly Finding[]): readonly string[] {
  const [{ id, level, what, why, fix }, ...more] = group as [Finding, ...Finding[]];
  const name = `${colorize(level, level.padEnd(LEVEL_WIDTH))} ${id}`;
  const whats =
    more.length === 0
      ? [`${name}: ${escapeControls(what)}`]
      : [name, ...group.map((one) => `  ${escapeControls(one.what)}`)];
  return [...whats, `  why: ${escapeControls(why)}`, `  fix: ${escapeControls(fix)}`];
}

const NAMES = {
  danger: ["danger", "dangers"],
  warning: ["warning", "warnings"],
  info: ["remark", "remarks"],
};

/** 1 danger, 2 remarks */
function summarize(levels: readonly Finding["level"][]): string {
  if (levels.length === 0) return colorize("good", "nothing found");
  return (["danger", "warning", "info"] as const)
    .map((level) => [levels.filter((one) => one === level).length, NAMES[level]] as const)
    .filter(([count]) => count > 0)
    .map(([count, [one, many]]) => `${count} ${count === 1 ? one : many}`)
    .join(", ");
}

const FENCES: Readonly<Record<Guarantees["fence"], string>> = {
  G3: "grows under any fault of processes, network or clocks (G3)",
  G2: "grows while a majority keeps its counters (G2)",
  G1: "grows unless acknowledged writes are lost and clocks run back (G1)",
};

/** Empty for a store that could not be reached. */
function renderGuarantees(callMs: number | null, ttlMs: number, guarantees: Guarantees): readonly string[] {
  if (callMs === null) return [];
  const { fence, order, wakes, kinds, survives, needs } = guarantees;
  return [
    "",
    `a call takes ${callMs.toFixed(1)} ms (median of ${CALLS}), the ttl is ${formatDuration(ttlMs)}`,
    `the fence ${FENCES[fence]}`,
    `order ${order}, wakes by ${wakes}, a dead holder's key is free after ${describeFreeAfter(guarantees)}`,
    `kinds: ${kinds.join(", ")}`,
    `exclusion holds under: ${survives.join(", ")}`,
    "needs:",
    ...needs.map((need) => `  ${need}`),
  ];
}

function describeFreeAfter({ freeAfterCrashMs, freeLateMs }: Guarantees): string {
  const late = freeLateMs === undefined ? "" : `, and at most ${formatDuration(freeLateMs)} more`;
  return (freeAfterCrashMs === "lease" ? "its ttl and grace" : formatDuration(freeAfterCrashMs)) + late;
}
