// The options of the public calls, and their validated form that core uses: complete, durations in ms. An
// unknown option is an error, so that a typo does not go unnoticed.

import type { MultiLease } from "./api.ts";
import { type Duration, toMs } from "./duration.ts";
import { InvalidArgumentError } from "./errors.ts";
import type { Mode } from "./store.ts";
import { defaultGraceMs } from "./lease/validity-window.ts";

/**
 * Options of `acquire`, `tryAcquire` and `using`.
 *
 * @example
 * await locks.acquire("order:42", { ttl: "30s", wait: "5s", label: "checkout" });
 */
export interface AcquireOptions {
  /**
   * Length of the lease, 50 ms to 7 days. holdfast renews the lease while it is held.
   *
   * @default "30s"
   */
  readonly ttl?: Duration | undefined;
  /**
   * How long to wait for the key. `0` makes one attempt, `Infinity` waits without a limit.
   *
   * @default "10s"
   */
  readonly wait?: Duration | undefined;
  /**
   * `"shared"` is a read lock: any number of readers hold the key together, and never beside a writer.
   *
   * @default "exclusive"
   */
  readonly mode?: Mode | undefined;
  /**
   * The number of permits of a semaphore, 1 to 1,000,000. `1` is a plain lock.
   *
   * @default 1
   */
  readonly limit?: number | undefined;
  /**
   * How many permits of the semaphore to take, at most `limit`.
   *
   * @default 1
   */
  readonly permits?: number | undefined;
  /**
   * Whether holdfast renews the lease, at about a third of the ttl.
   *
   * @default true
   */
  readonly renew?: boolean | undefined;
  /** Renewal stops after this time. The lease then ends with the reason `max-hold`. */
  readonly maxHold?: Duration | undefined;
  /**
   * Whether an actor may enter a key that it already holds. Entries are counted and share one fence. Without
   * it the call rejects with `DeadlockError`.
   *
   * @default false
   */
  readonly reentrant?: boolean | undefined;
  /** Nests the call in the actor of this lease. Implied inside a callback of `using`, `once` or `elect`. */
  readonly within?: MultiLease | undefined;
  /** Cancels the wait. A grant that races with the abort is given back. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Human-readable name of the holder, at most 256 characters.
   *
   * @default host:pid
   */
  readonly label?: string | undefined;
}

/** Options of `once`. `wait` is 0 unless given. */
export interface OnceOptions extends AcquireOptions {
  /** The key stays taken for at least this time after the grant, even if this process dies. */
  readonly atLeast: Duration;
}

/** Options of `elect`. */
export interface ElectOptions {
  /**
   * Length of the lease, renewed while leading. After a leader dies, the next one follows within this time
   * and the grace.
   *
   * @default "30s"
   */
  readonly ttl?: Duration | undefined;
  /** The longest term. */
  readonly maxHold?: Duration | undefined;
  /** Closes the election. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Human-readable name of this candidate.
   *
   * @default host:pid
   */
  readonly label?: string | undefined;
}

/** Options of `close`. */
export interface CloseOptions {
  /**
   * How long running callbacks may continue. `0` aborts their signals immediately, `Infinity` waits for all
   * of them.
   *
   * @default "10s"
   */
  readonly drain?: Duration | undefined;
}

/**
 * Options of `createLocks`.
 *
 * @example
 * const locks = createLocks("redis://127.0.0.1:6379", { namespace: "shop", ttl: "10s" });
 */
export interface LocksOptions {
  /**
   * The default `ttl` of calls.
   *
   * @default "30s"
   */
  readonly ttl?: Duration | undefined;
  /**
   * The default `wait` of calls.
   *
   * @default "10s"
   */
  readonly wait?: Duration | undefined;
  /**
   * The default `label` of calls.
   *
   * @default host:pid
   */
  readonly label?: string | undefined;
  /**
   * Prefix of everything that holdfast writes to the store: 1 to 64 letters, digits, dots, dashes or
   * underscores.
   *
   * @default "holdfast"
   */
  readonly namespace?: string | undefined;
  /**
   * How much longer the store keeps the key than the holder believes. It covers clocks that run at
   * different speeds.
   *
   * @default a tenth of the ttl, at least 50 ms
   */
  readonly grace?: Duration | undefined;
  /**
   * How long after a grant of the store the tasks of this process may hand the lease off. `0` turns hand-off
   * off.
   *
   * @default "10ms"
   */
  readonly handoff?: Duration | undefined;
  /**
   * How long a call waits before holdfast looks for a cycle of actors that wait for each other. `false` turns
   * detection off.
   *
   * @default "500ms"
   */
  readonly deadlock?: Duration | false | undefined;
  /** Names of unsafe store settings to accept. */
  readonly allow?: readonly AllowName[] | undefined;
}

/** The name of an unsafe store setting that `allow` accepts. */
export type AllowName = "eviction" | "few-nodes" | "fresh-nodes" | "pooler" | "old-etcd";
/** All names that `allow` accepts. */
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

/** Validated options of `createLocks`. */
export interface Defaults {
  readonly ttlMs: number;
  readonly waitMs: number;
  readonly label: string;
  readonly namespace: string;
  readonly graceMs: number | null;
  readonly handoffMs: number;
  /** null: detection is off. */
  readonly deadlockMs: number | null;
  readonly allow: readonly AllowName[];
}

/** The options that two tasks must have in common so that one grant can be handed off between them. */
export interface LockSpec {
  readonly mode: Mode;
  readonly permits: number;
  readonly limit: number;
  readonly ttlMs: number;
  readonly graceMs: number;
  readonly keepMs: number;
  readonly reservedFences: number;
}

/** Validated options of one acquire. */
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

/** An exclusive lock without `atLeast`. */
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
      `namespace must be 1 to 64 letters, digits, dots, dashes or underscores, got ${show(namespace)}`,
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
    throw new InvalidArgumentError(`mode must be "exclusive" or "shared", got ${show(mode)}`);
  }
  const limit = readCount("limit", options.limit ?? 1);
  const permits = readCount("permits", options.permits ?? 1);
  if (permits > limit) {
    throw new InvalidArgumentError(
      `permits must be at most limit (${limit}), got ${permits}: raise limit or take fewer permits`,
    );
  }
  if (mode === "shared" && limit > 1) {
    throw new InvalidArgumentError(
      `limit must be 1 with mode "shared", got ${limit}: a key is either a read-write lock or a semaphore`,
    );
  }
  return {
    mode,
    permits,
    limit,
    ttlMs,
    graceMs: defaults.graceMs ?? defaultGraceMs(ttlMs),
    keepMs,
    // Holders of a shared lock or a semaphore cannot be handed off, so they need no fences for it.
    reservedFences:
      mode === "exclusive" && limit === 1 ? reservedFor(Math.min(ttlMs, defaults.handoffMs)) : 0,
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

/** One fence per microsecond of hand-off time. */
function reservedFor(handoffMs: number): number {
  return Math.ceil(handoffMs * 1_000);
}

export function readElectOptions(options: ElectOptions, defaults: Defaults): AcquireSpec {
  refuseUnknown("elect", options, ["ttl", "maxHold", "signal", "label"]);
  return readAcquireOptions({ ...options, wait: Number.POSITIVE_INFINITY }, defaults);
}

/** `drain` in ms, or undefined for the default. */
export function readCloseOptions(options: CloseOptions): number | undefined {
  refuseUnknown("close", options, ["drain"]);
  const { drain } = options;
  return drain === undefined || drain === Number.POSITIVE_INFINITY ? drain : toMs("drain", drain);
}

export function readTtl(value: unknown): number {
  const ttlMs = toMs("ttl", value);
  if (ttlMs >= MIN_TTL_MS && ttlMs <= MAX_TTL_MS) return ttlMs;
  throw new InvalidArgumentError(
    `ttl must be from ${MIN_TTL_MS} ms to 7 days, got ${show(value)}: ` +
      "a lease is renewed while it is held, so ttl may be shorter than the work",
  );
}

export function refuseUnknown(call: string, options: unknown, known: readonly string[]): void {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw new InvalidArgumentError(`the options of ${call} must be an object, got ${show(options)}`);
  }
  for (const name of Object.keys(options)) {
    if (known.includes(name)) continue;
    throw new InvalidArgumentError(
      `${call} has no option ${JSON.stringify(name.slice(0, 40))}: use ${known.join(", ")}`,
    );
  }
}

function readWait(value: unknown): number {
  return value === Number.POSITIVE_INFINITY ? Number.POSITIVE_INFINITY : toMs("wait", value);
}

export function readPositive(name: string, value: unknown): number {
  const ms = toMs(name, value);
  if (ms > 0) return ms;
  throw new InvalidArgumentError(`${name} must be greater than 0, got ${show(value)}`);
}

function readCount(name: string, value: unknown): number {
  if (Number.isInteger(value) && (value as number) >= 1 && (value as number) <= MAX_LIMIT)
    return value as number;
  throw new InvalidArgumentError(`${name} must be a whole number from 1 to ${MAX_LIMIT}, got ${show(value)}`);
}

function readBoolean(name: string, value: unknown): boolean {
  if (typeof value === "boolean") return value;
  throw new InvalidArgumentError(`${name} must be true or false, got ${show(value)}`);
}

function readLabel(value: unknown): string {
  if (typeof value === "string" && value.length <= MAX_LABEL_LENGTH && value.isWellFormed()) return value;
  throw new InvalidArgumentError(
    `label must be a string of at most ${MAX_LABEL_LENGTH} characters ` +
      `without unpaired surrogates, got ${show(value)}`,
  );
}

function readSignal(value: unknown): AbortSignal | null {
  if (value === undefined) return null;
  if (value instanceof AbortSignal) return value;
  throw new InvalidArgumentError(`signal must be an AbortSignal, got ${show(value)}`);
}

function readAllow(value: unknown): readonly AllowName[] {
  if (Array.isArray(value) && value.every((name) => ALLOW_NAMES.includes(name as AllowName)))
    return value as AllowName[];
  throw new InvalidArgumentError(`allow must be an array of ${ALLOW_NAMES.join(", ")}, got ${show(value)}`);
}

/** A value for a message, truncated if it is long. */
export function show(value: unknown): string {
  const text = typeof value === "string" ? JSON.stringify(value) : String(value);
  return text.length <= 60 ? text : `${text.slice(0, 57)}...`;
}

/** Rejects `call(key, fn, options)`: the options would have no effect. */
export function refuseOptionsLast(call: string, second: unknown, third: unknown): void {
  if (typeof second !== "function" || third === undefined) return;
  throw new InvalidArgumentError(
    `the options of ${call} must come before the function: ${call}(key, options, fn)`,
  );
}
