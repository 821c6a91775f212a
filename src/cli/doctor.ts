// `holdfast doctor`: is this store safe to lock on? What the store itself found, how long a call to it
// takes against the ttl, and what it promises. A store that cannot be opened is a finding too. A danger is
// an exit code of its own; a warning with --strict.

import { type Finding, type Guarantees, LockError, type Locks } from "../surface.ts";
import { describe, EXIT, exitCodeOf } from "./exit-codes.ts";
import { openToLook, type StoreFlags, storeUrl } from "./options.ts";
import { print, printJson } from "./output.ts";
import { paint } from "./paint.ts";
import { clean, place, time } from "./words.ts";

export interface DoctorFlags extends StoreFlags {
  readonly ttl?: number;
  readonly strict?: true;
}

interface Examined {
  readonly findings: readonly Finding[];
  /** null where no call has succeeded. */
  readonly callMs: number | null;
}

const DEFAULT_TTL_MS = 30_000;
const CALLS = 20;
/** A lease is renewed at a third of its ttl, and a call that fails is made again: this many must fit. */
const CALLS_PER_TTL = 30;
const WEIGHT = { danger: 2, warning: 1, info: 0 } as const;
/** The exit code for a warning with --strict. */
const EXIT_WARNING = 1;
const KEY = "holdfast:doctor";

export async function doctor(flags: DoctorFlags): Promise<number> {
  const locks = await openToLook(flags);
  try {
    const ttlMs = flags.ttl ?? DEFAULT_TTL_MS;
    const { findings, callMs } = await examine(locks, ttlMs);
    const store = place(storeUrl(flags));
    const { guarantees } = locks;
    if (flags.json) printJson({ store, findings, callMs, ttlMs, guarantees });
    else print(`${[...words(store, findings), ...promises(callMs, ttlMs, guarantees)].join("\n")}\n`);
    return exitCodeFor(findings, flags.strict === true);
  } finally {
    await locks.close();
  }
}

/** The worst first. */
async function examine(locks: Locks, ttlMs: number): Promise<Examined> {
  const found: Finding[] = [];
  let callMs: number | null = null;
  try {
    found.push(...(await locks.check()));
    callMs = await roundTrip(locks);
    found.push(...slow(callMs, ttlMs));
  } catch (error) {
    if (!LockError.is(error) || exitCodeOf(error) !== EXIT.unavailable) throw error;
    found.push(refusal(error));
  }
  return { findings: found.toSorted((a, b) => weight(b) - weight(a)), callMs };
}

const weight = ({ level }: Finding): number => WEIGHT[level];

function exitCodeFor(findings: readonly Finding[], isStrict: boolean): number {
  const has = (wanted: Finding["level"]): boolean => findings.some(({ level }) => level === wanted);
  if (has("danger")) return EXIT.unavailable;
  return isStrict && has("warning") ? EXIT_WARNING : 0;
}

/** The middle of some looks at a key that nobody uses. */
async function roundTrip(locks: Locks): Promise<number> {
  const took: number[] = [];
  for (let call = 0; call < CALLS; call += 1) {
    const startMs = performance.now();
    await locks.inspect(KEY);
    took.push(performance.now() - startMs);
  }
  return Number((took.toSorted((a, b) => a - b)[CALLS / 2] as number).toFixed(3));
}

const REFUSED: Readonly<Record<string, string>> = {
  ERR_STORE_UNSAFE: "unsafe",
  ERR_LOCK_UNSUPPORTED: "unsupported",
  ERR_LOCK_QUORUM: "no-quorum",
};

/** The store could not be opened or asked. */
function refusal(error: LockError): Finding {
  const { fix } = error as { readonly fix?: unknown };
  return {
    id: REFUSED[error.code] ?? "unavailable",
    level: "danger",
    what: describe(error),
    why: "nothing can be locked here, and what else may be wrong could not be looked at",
    fix: typeof fix === "string" ? fix : "mend what it says, or correct --store; then ask the doctor again",
  };
}

function slow(callMs: number, ttlMs: number): Finding[] {
  if (callMs * CALLS_PER_TTL <= ttlMs) return [];
  return [
    {
      id: "ttl-too-short",
      level: "warning",
      what: `a call takes ${callMs.toFixed(1)} ms and the ttl is ${time(ttlMs)}`,
      why: "a lease is renewed by calls; when a few of them are late it is lost although its holder lives",
      fix: `a ttl of at least ${time(callMs * CALLS_PER_TTL)}, or a store that is nearer`,
    },
  ];
}

const LEVEL_WIDTH = "warning".length;

/** What is the same of several nodes is said once. */
function words(store: string, findings: readonly Finding[]): readonly string[] {
  const alike = new Map<string, Finding[]>();
  for (const one of findings) {
    const kind = JSON.stringify([one.level, one.id, one.why, one.fix]);
    alike.set(kind, [...(alike.get(kind) ?? []), one]);
  }
  const groups = [...alike.values()];
  return [
    `${store.replace(/:$/, "")}: ${groups.length === 0 ? paint("good", "nothing found") : counted(groups.map(([one]) => (one as Finding).level))}`,
    ...groups.flatMap(said),
  ];
}

function said(alike: readonly Finding[]): readonly string[] {
  const [{ id, level, what, why, fix }, ...more] = alike as [Finding, ...Finding[]];
  const name = `${paint(level, level.padEnd(LEVEL_WIDTH))} ${id}`;
  const whats =
    more.length === 0 ? [`${name}: ${clean(what)}`] : [name, ...alike.map((one) => `  ${clean(one.what)}`)];
  return [...whats, `  why: ${clean(why)}`, `  fix: ${clean(fix)}`];
}

const NAMES = {
  danger: ["danger", "dangers"],
  warning: ["warning", "warnings"],
  info: ["remark", "remarks"],
};

/** 1 danger, 2 remarks */
function counted(levels: readonly Finding["level"][]): string {
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

/** Nothing of a store that could not be asked. */
function promises(callMs: number | null, ttlMs: number, guarantees: Guarantees): readonly string[] {
  if (callMs === null) return [];
  const { fence, order, wakes, kinds, survives, needs } = guarantees;
  return [
    "",
    `a call takes ${callMs.toFixed(1)} ms (the middle of ${CALLS}), the ttl is ${time(ttlMs)}`,
    `the fence ${FENCES[fence]}`,
    `order ${order}, wakes by ${wakes}, a dead holder's key is free after ${free(guarantees)}`,
    `kinds: ${kinds.join(", ")}`,
    `exclusion holds under: ${survives.join(", ")}`,
    "needs:",
    ...needs.map((need) => `  ${need}`),
  ];
}

function free({ freeAfterCrashMs, freeLateMs }: Guarantees): string {
  const late = freeLateMs === undefined ? "" : `, and at most ${time(freeLateMs)} more`;
  return (freeAfterCrashMs === "lease" ? "its ttl and grace" : time(freeAfterCrashMs)) + late;
}
