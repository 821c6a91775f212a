// `holdfast doctor`: is this store safe to lock on? What the store itself found, how long a call to it takes against the ttl, and
// what it promises. The exit code is that of the worst finding.

import { ALLOW_NAMES, type Finding, type Guarantees, type Locks } from "../index.ts";
import { EXIT } from "./exit-codes.ts";
import { openLocks, type StoreFlags } from "./options.ts";
import { print, printJson } from "./output.ts";
import { paint } from "./paint.ts";
import { clean, time } from "./words.ts";

export interface DoctorFlags extends StoreFlags {
  readonly ttl?: number;
}

const DEFAULT_TTL_MS = 30_000;
const CALLS = 20;
/** A lease is renewed at a third of its ttl, and a call that fails is made again: this many must fit. */
const CALLS_PER_TTL = 30;
const EXIT_BY_LEVEL = { danger: EXIT.unavailable, warning: 1, info: 0 } as const;
const KEY = "holdfast:doctor";

export async function doctor(flags: DoctorFlags): Promise<number> {
  // Everything is allowed, so that what is unsafe is found and not refused.
  const { locks } = openLocks(flags, { allow: ALLOW_NAMES });
  try {
    const ttlMs = flags.ttl ?? DEFAULT_TTL_MS;
    const found = await locks.check();
    const callMs = await roundTrip(locks);
    const findings = [...found, ...slow(callMs, ttlMs)].toSorted((a, b) => weight(b) - weight(a));
    const { guarantees } = locks;
    if (flags.json) printJson({ findings, callMs: Number(callMs.toFixed(3)), ttlMs, guarantees });
    else print(`${lines(findings, callMs, ttlMs, guarantees).join("\n")}\n`);
    return Math.max(0, ...findings.map(({ level }) => EXIT_BY_LEVEL[level]));
  } finally {
    await locks.close();
  }
}

const weight = ({ level }: Finding): number => EXIT_BY_LEVEL[level];

/** The middle of some looks at a key that nobody uses. */
async function roundTrip(locks: Locks): Promise<number> {
  const took: number[] = [];
  for (let call = 0; call < CALLS; call += 1) {
    const startMs = performance.now();
    await locks.inspect(KEY);
    took.push(performance.now() - startMs);
  }
  return took.toSorted((a, b) => a - b)[CALLS / 2] as number;
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

function lines(
  findings: readonly Finding[],
  callMs: number,
  ttlMs: number,
  guarantees: Guarantees,
): readonly string[] {
  const said = findings.flatMap(({ id, level, what, why, fix }) => [
    `${paint(level, level)}  ${id}: ${clean(what)}`,
    `  why: ${clean(why)}`,
    `  fix: ${clean(fix)}`,
  ]);
  return [
    ...(said.length === 0 ? [paint("good", "nothing found")] : said),
    "",
    `a call takes ${callMs.toFixed(1)} ms (the middle of ${CALLS}), the ttl is ${time(ttlMs)}`,
    `fence ${guarantees.fence}, order ${guarantees.order}, wakes by ${guarantees.wakes}, a dead holder's key is free after ${free(guarantees)}`,
    `kinds: ${guarantees.kinds.join(", ")}`,
    `exclusion holds under: ${guarantees.survives.join(", ")}`,
    "needs:",
    ...guarantees.needs.map((need) => `  ${need}`),
  ];
}

function free({ freeAfterCrashMs, freeLateMs }: Guarantees): string {
  const late = freeLateMs === undefined ? "" : `, and at most ${time(freeLateMs)} more`;
  return (freeAfterCrashMs === "lease" ? "its ttl and grace" : time(freeAfterCrashMs)) + late;
}
