// Options as the caller gives them, and as the rest of core uses them: checked, complete, in ms. A typo is refused, not ignored.

import type { MultiLease } from "./api.ts";
import { type Duration, toMs } from "./duration.ts";
import { InvalidArgumentError } from "./errors.ts";
import type { Mode } from "./store.ts";
import { defaultGraceMs } from "./lease/validity-window.ts";

export interface AcquireOptions {
  /** Length of the lease, renewed while held. Default "30s". */
  readonly ttl?: Duration | undefined;
  /** How long to wait; 0 = one attempt, Infinity allowed. Default "10s". */
  readonly wait?: Duration | undefined;
  /** "shared" is a read lock. Default "exclusive". */
  readonly mode?: Mode | undefined;
  /** A semaphore of so many permits. Default 1, a lock. */
  readonly limit?: number | undefined;
  /** How many permits to take. Default 1. */
  readonly permits?: number | undefined;
  /** Renew automatically at about a third of the ttl. Default true. */
  readonly renew?: boolean | undefined;
  /** Renewal stops after this; the lease then ends. */
  readonly maxHold?: Duration | undefined;
  /** The same actor may take it again, counted, with the same fence. Default false: it is refused with DeadlockError. */
  readonly reentrant?: boolean | undefined;
  /** A lease whose actor this call belongs to. Implied inside the callback of `using` and `once`. */
  readonly within?: MultiLease | undefined;
  /** Cancels the wait. */
  readonly signal?: AbortSignal | undefined;
  /** Who holds it, for people. Default host:pid. */
  readonly label?: string | undefined;
}

export interface OnceOptions extends AcquireOptions {
  /** The key stays taken at least so long, even if this process dies. */
  readonly atLeast: Duration;
}

export interface ElectOptions {
  /** Length of the lease, renewed while leading: so long after the death of a leader the next one comes. Default "30s". */
  readonly ttl?: Duration | undefined;
  /** A term lasts no longer than this. */
  readonly maxHold?: Duration | undefined;
  /** Closes the election. */
  readonly signal?: AbortSignal | undefined;
  /** Who leads, for people. Default host:pid. */
  readonly label?: string | undefined;
}

export interface CloseOptions {
  /** How long running callbacks may go on. 0 tells them at once, Infinity waits for them. Default "10s". */
  readonly drain?: Duration | undefined;
}

export interface LocksOptions {
  readonly ttl?: Duration | undefined;
  readonly wait?: Duration | undefined;
  readonly label?: string | undefined;
  /** Prefix of everything written to the store. Default "holdfast". */
  readonly namespace?: string | undefined;
  /**
   * How much longer the store keeps the key than the holder believes. Default a tenth of the ttl, at least
   * 50 ms.
   */
  readonly grace?: Duration | undefined;
  /** For how long after the store's grant a lease may pass from task to task of this process. Default "10ms"; 0 = never. */
  readonly handoff?: Duration | undefined;
  /** Wait that long before looking for a circle of actors that wait for each other. Default "500ms"; false = never. */
  readonly deadlock?: Duration | false | undefined;
  /** Unsafe settings of a store accepted by name. */
  readonly allow?: readonly AllowName[] | undefined;
}

export type AllowName = "eviction" | "few-nodes" | "fresh-nodes" | "pooler" | "old-etcd";
/** Every unsafe setting that can be accepted by name. */
export const ALLOW_NAMES: readonly AllowName[] = [
  "eviction",
  "few-nodes",
  "fresh-nodes",
  "pooler",
  "old-etcd",
];

const MIN_TTL_MS = 50;
const MAX_TTL_MS: number = 7 * 24 * 3_600_000;
const MAX_LABEL_LENGTH = 256;
const MAX_LIMIT = 1_000_000;

/** Options of `createLocks`, complete. */
export interface Defaults {
  readonly ttlMs: number;
  readonly waitMs: number;
  readonly label: string;
  readonly namespace: string;
  readonly graceMs: number | null;
  readonly handoffMs: number;
  /** null: never look for circles. */
  readonly deadlockMs: number | null;
  readonly allow: readonly AllowName[];
}

/** What two tasks must agree on to use one and the same grant. */
export interface LockSpec {
  readonly mode: Mode;
  readonly permits: number;
  readonly limit: number;
  readonly ttlMs: number;
  readonly graceMs: number;
  readonly keepMs: number;
  readonly reservedFences: number;
}

/** Options of one acquire, complete. */
export interface AcquireSpec extends LockSpec {
  readonly waitMs: number;
  readonly renew: boolean;
  readonly maxHoldMs: number;
  readonly signal: AbortSignal | null;
  readonly label: string;
  readonly reentrant: boolean;
  readonly within: MultiLease | null;
}

const LOCKS_OPTIONS = ["ttl", "wait", "label", "namespace", "grace", "handoff", "deadlock", "allow"] as const;
const ACQUIRE_OPTIONS = [
  "ttl",
  "wait",
  "mode",
  "limit",
  "permits",
  "renew",
  "maxHold",
  "reentrant",
  "within",
  "signal",
  "label",
] as const;

/** A lock for one holder that ends with its release. */
export function isPlain({ mode, limit, keepMs }: LockSpec): boolean {
  return mode === "exclusive" && limit === 1 && keepMs === 0;
}

export function sameLockSpec(a: LockSpec, b: LockSpec): boolean {
  return (
    a.mode === b.mode &&
    a.permits === b.permits &&
    a.limit === b.limit &&
    a.ttlMs === b.ttlMs &&
    a.graceMs === b.graceMs &&
    a.keepMs === b.keepMs
  );
}

export function readLocksOptions(options: LocksOptions, processLabel: string): Defaults {
  refuseUnknown("createLocks", options, LOCKS_OPTIONS);
  const namespace = options.namespace ?? "holdfast";
  if (typeof namespace !== "string" || !/^[A-Za-z0-9_.-]{1,64}$/.test(namespace)) {
    throw new InvalidArgumentError(
      `namespace is ${show(namespace)}: it is 1 to 64 letters, digits, dots, dashes or underscores`,
    );
  }
  return {
    ttlMs: readTtl(options.ttl ?? 30_000),
    waitMs: readWait(options.wait ?? 10_000),
    label: readLabel(options.label ?? processLabel),
    namespace,
    graceMs: options.grace === undefined ? null : toMs("grace", options.grace),
    handoffMs: toMs("handoff", options.handoff ?? 10),
    deadlockMs: options.deadlock === false ? null : toMs("deadlock", options.deadlock ?? 500),
    allow: readAllow(options.allow ?? []),
  };
}

export function readAcquireOptions(options: AcquireOptions, defaults: Defaults, keepMs = 0): AcquireSpec {
  refuseUnknown("acquire", options, ACQUIRE_OPTIONS);
  const ttlMs = options.ttl === undefined ? defaults.ttlMs : readTtl(options.ttl);
  const mode = options.mode ?? "exclusive";
  if (mode !== "exclusive" && mode !== "shared") {
    throw new InvalidArgumentError(`mode is ${show(mode)}: it is "exclusive" or "shared"`);
  }
  const limit = readCount("limit", options.limit ?? 1);
  const permits = readCount("permits", options.permits ?? 1);
  if (permits > limit) {
    throw new InvalidArgumentError(
      `permits is ${permits} but limit is ${limit}: nobody could ever get more permits than there are`,
    );
  }
  if (mode === "shared" && limit > 1) {
    throw new InvalidArgumentError(`mode "shared" and limit ${limit} exclude each other: choose one`);
  }
  return {
    mode,
    permits,
    limit,
    ttlMs,
    graceMs: defaults.graceMs ?? defaultGraceMs(ttlMs),
    keepMs,
    // Only a lone holder may number its own hand-offs.
    reservedFences: mode === "exclusive" && limit === 1 ? roomFor(Math.min(ttlMs, defaults.handoffMs)) : 0,
    waitMs: options.wait === undefined ? defaults.waitMs : readWait(options.wait),
    renew: readBoolean("renew", options.renew ?? true),
    maxHoldMs:
      options.maxHold === undefined ? Number.POSITIVE_INFINITY : readPositive("maxHold", options.maxHold),
    signal: readSignal(options.signal),
    label: options.label === undefined ? defaults.label : readLabel(options.label),
    reentrant: readBoolean("reentrant", options.reentrant ?? false),
    within: options.within ?? null,
  };
}

/** One number per microsecond. */
function roomFor(handoffMs: number): number {
  return Math.ceil(handoffMs * 1_000);
}

export function readElectOptions(options: ElectOptions, defaults: Defaults): AcquireSpec {
  refuseUnknown("elect", options, ["ttl", "maxHold", "signal", "label"]);
  return readAcquireOptions({ ...options, wait: Number.POSITIVE_INFINITY }, defaults);
}

/** ms; undefined is the default. */
export function readCloseOptions(options: CloseOptions): number | undefined {
  refuseUnknown("close", options, ["drain"]);
  const { drain } = options;
  return drain === undefined || drain === Number.POSITIVE_INFINITY ? drain : toMs("drain", drain);
}

/** ttl of `extend`. */
export function readTtl(value: unknown): number {
  const ttlMs = toMs("ttl", value);
  if (ttlMs >= MIN_TTL_MS && ttlMs <= MAX_TTL_MS) return ttlMs;
  throw new InvalidArgumentError(
    `ttl is ${show(value)}: a lease lasts from ${MIN_TTL_MS} ms to 7 days; it is renewed while held, so short is safe`,
  );
}

export function refuseUnknown(call: string, options: unknown, known: readonly string[]): void {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw new InvalidArgumentError(`the options of ${call} are ${show(options)}: give an object`);
  }
  for (const name of Object.keys(options)) {
    if (known.includes(name)) continue;
    throw new InvalidArgumentError(
      `${call} has no option ${JSON.stringify(name.slice(0, 40))}: it knows ${known.join(", ")}`,
    );
  }
}

function readWait(value: unknown): number {
  return value === Number.POSITIVE_INFINITY ? Number.POSITIVE_INFINITY : toMs("wait", value);
}

export function readPositive(name: string, value: unknown): number {
  const ms = toMs(name, value);
  if (ms > 0) return ms;
  throw new InvalidArgumentError(`${name} is ${show(value)}: it must be longer than 0`);
}

function readCount(name: string, value: unknown): number {
  if (Number.isInteger(value) && (value as number) >= 1 && (value as number) <= MAX_LIMIT)
    return value as number;
  throw new InvalidArgumentError(`${name} is ${show(value)}: it is a whole number from 1 to ${MAX_LIMIT}`);
}

function readBoolean(name: string, value: unknown): boolean {
  if (typeof value === "boolean") return value;
  throw new InvalidArgumentError(`${name} is ${show(value)}: it is true or false`);
}

function readLabel(value: unknown): string {
  if (typeof value === "string" && value.length <= MAX_LABEL_LENGTH && value.isWellFormed()) return value;
  throw new InvalidArgumentError(
    `label is ${show(value)}: it is well-formed text of at most ${MAX_LABEL_LENGTH} characters`,
  );
}

function readSignal(value: unknown): AbortSignal | null {
  if (value === undefined) return null;
  if (value instanceof AbortSignal) return value;
  throw new InvalidArgumentError(`signal is ${show(value)}: it is an AbortSignal`);
}

function readAllow(value: unknown): readonly AllowName[] {
  if (Array.isArray(value) && value.every((name) => ALLOW_NAMES.includes(name as AllowName)))
    return value as AllowName[];
  throw new InvalidArgumentError(`allow is ${show(value)}: it is an array of ${ALLOW_NAMES.join(", ")}`);
}

function show(value: unknown): string {
  const text = typeof value === "string" ? JSON.stringify(value) : String(value);
  return text.length <= 60 ? text : `${text.slice(0, 57)}...`;
}

/** `call(key, fn)` or `call(key, options, fn)`. Options behind the function would be passed over without a word. */
export function refuseOptionsLast(call: string, second: unknown, third: unknown): void {
  if (typeof second !== "function" || third === undefined) return;
  throw new InvalidArgumentError(`the options of ${call} go before the function: ${call}(key, options, fn)`);
}
