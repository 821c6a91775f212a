// Every way a lock can fail, one class per cause (P17).
// A message says what happened, to which key, after how long, who holds it and what to do. Ids never appear in it.
//
// Each class has a brand, a symbol of the global registry on its prototype. `instanceof` and `is` look for
// the brand, so that they also know errors of another copy of the package, and tell the classes apart.

import type { LossReason, NodeReason } from "./store.ts";
import { processWide } from "./util/process-wide.ts";

/** The classes of this copy and their brands. A subclass of a user has none and is compared as usual. */
const brands = new WeakMap<object, symbol>();

function brand(of: { readonly prototype: LockError }, name: string): void {
  const symbol = Symbol.for(`holdfast.${name}`);
  brands.set(of, symbol);
  Object.defineProperty(of.prototype, symbol, { value: true });
  // Not the name of the class, which a bundler may shorten.
  Object.defineProperty(of.prototype, "name", { value: name, writable: true, configurable: true });
}

function isInstance(of: object, value: unknown): boolean {
  const symbol = brands.get(of);
  if (symbol === undefined) return Function.prototype[Symbol.hasInstance].call(of as () => void, value);
  return (
    typeof value === "object" &&
    value !== null &&
    (value as Readonly<Record<symbol, unknown>>)[symbol] === true
  );
}

export type LockErrorCode =
  | "ERR_LOCK_TIMEOUT"
  | "ERR_LOCK_ABORTED"
  | "ERR_LOCK_LOST"
  | "ERR_LOCK_DEADLOCK"
  | "ERR_LOCK_QUORUM"
  | "ERR_STORE_UNAVAILABLE"
  | "ERR_STORE_UNSAFE"
  | "ERR_FENCE_STALE"
  | "ERR_FENCE_MISSING"
  | "ERR_LOCK_UNSUPPORTED"
  | "ERR_LOCK_ARGUMENT";

export interface LockErrorOptions {
  readonly key?: string | undefined;
  readonly cause?: unknown;
  readonly retryable?: boolean | undefined;
  /**
   * The connection ended before the reply. The call may have been carried out; core repeats idempotent calls.
   */
  readonly disconnected?: boolean | undefined;
  /** The call was certainly not carried out and never will be: it was not sent, or the server refused it. */
  readonly unsent?: boolean | undefined;
}

/**
 * Errors of calls whose connection ended before the reply. The store that throws them may be of another copy
 * of the package than the core that reads them.
 */
const disconnected = processWide("disconnected", () => new WeakSet<object>());

export function isDisconnected(error: unknown): boolean {
  return typeof error === "object" && error !== null && disconnected.has(error);
}

/** Errors of calls that were certainly not carried out. */
const unsent = processWide("unsent", () => new WeakSet<object>());

/** Gives the error itself. */
export function markUnsent<E>(error: E): E {
  if (typeof error === "object" && error !== null) unsent.add(error);
  return error;
}

export function isUnsent(error: unknown): boolean {
  return typeof error === "object" && error !== null && unsent.has(error);
}

/**
 * The parent of all errors of this package. `LockError.is(e)` narrows to a union that `code` tells apart.
 *
 * @example
 * if (LockError.is(error) && error.code === "ERR_LOCK_TIMEOUT") console.log(error.holders);
 */
export class LockError extends Error {
  readonly code: LockErrorCode;
  readonly key: string | undefined;
  /** Whether the same call may succeed later without anybody changing anything. */
  readonly retryable: boolean;

  constructor(code: LockErrorCode, message: string, options: LockErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.key = options.key;
    this.retryable = options.retryable ?? false;
    if (options.disconnected === true) disconnected.add(this);
    if (options.unsent === true) markUnsent(this);
  }

  static {
    brand(this, "LockError");
  }

  static is(error: unknown): error is AnyLockError {
    return error instanceof LockError;
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    return isInstance(this, value);
  }

  /** Plain data: fences are decimal strings. Without the stack, and without what a callback returned. */
  toJSON(): Record<string, unknown> {
    const { name, message } = this;
    const own = Object.fromEntries(Object.entries(this));
    return plain({ ...own, name, message, result: undefined }) as Record<string, unknown>;
  }
}

/** The same with fences as decimal strings, as JSON needs them. */
export function plain(value: unknown): unknown {
  if (typeof value === "bigint") return String(value);
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, plain(one)]));
}

/** A holder as errors and events show it. */
export interface HolderSummary {
  readonly label: string;
  readonly mode: "exclusive" | "shared";
  readonly permits: number;
  readonly fence: bigint;
  readonly remainingMs: number;
  readonly heldMs: number;
}

/** Busy: not acquired within `wait`. */
export class LockTimeoutError extends LockError {
  declare readonly code: "ERR_LOCK_TIMEOUT";
  readonly waitedMs: number;
  readonly holders: readonly HolderSummary[];
  /** Empty unless the store has several nodes. */
  readonly nodes: readonly NodeReason[];

  static {
    brand(this, "LockTimeoutError");
  }

  static override is(error: unknown): error is LockTimeoutError {
    return error instanceof LockTimeoutError;
  }

  constructor(
    message: string,
    options: LockErrorOptions & {
      waitedMs: number;
      holders: readonly HolderSummary[];
      nodes?: readonly NodeReason[] | undefined;
    },
  ) {
    super("ERR_LOCK_TIMEOUT", message, { retryable: true, ...options });
    this.waitedMs = options.waitedMs;
    this.holders = options.holders;
    this.nodes = options.nodes ?? [];
  }
}

/** The caller's signal, or `close()`, ended the wait. */
export class LockAbortedError extends LockError {
  declare readonly code: "ERR_LOCK_ABORTED";

  static {
    brand(this, "LockAbortedError");
  }

  static override is(error: unknown): error is LockAbortedError {
    return error instanceof LockAbortedError;
  }

  constructor(message: string, options: LockErrorOptions = {}) {
    super("ERR_LOCK_ABORTED", message, options);
  }
}

/** The lease ended before its holder let go. */
export class LockLostError extends LockError {
  declare readonly code: "ERR_LOCK_LOST";
  readonly reason: LossReason;
  /** Of the first key. */
  readonly fence: bigint | undefined;
  /** More of the reason, such as the words of the operator who revoked it. */
  readonly detail: string | undefined;
  /** What the callback of `using` returned although the lease was lost. */
  result: unknown = undefined;

  static {
    brand(this, "LockLostError");
  }

  static override is(error: unknown): error is LockLostError {
    return error instanceof LockLostError;
  }

  constructor(
    message: string,
    options: LockErrorOptions & {
      reason: LossReason;
      fence?: bigint | undefined;
      detail?: string | undefined;
    },
  ) {
    super("ERR_LOCK_LOST", message, options);
    this.reason = options.reason;
    this.fence = options.fence;
    this.detail = options.detail;
  }
}

/** One step of a cycle: this actor holds `holds` and waits for `waitsFor`. */
export interface DeadlockStep {
  readonly label: string;
  readonly holds: string;
  readonly waitsFor: string;
}

/** Waiting would never end. */
export class DeadlockError extends LockError {
  declare readonly code: "ERR_LOCK_DEADLOCK";
  readonly cycle: readonly DeadlockStep[];

  static {
    brand(this, "DeadlockError");
  }

  static override is(error: unknown): error is DeadlockError {
    return error instanceof DeadlockError;
  }

  constructor(message: string, options: LockErrorOptions & { cycle: readonly DeadlockStep[] }) {
    super("ERR_LOCK_DEADLOCK", message, options);
    this.cycle = options.cycle;
  }
}

/** No majority of nodes agreed. */
export class QuorumError extends LockError {
  declare readonly code: "ERR_LOCK_QUORUM";
  readonly nodes: readonly NodeReason[];

  static {
    brand(this, "QuorumError");
  }

  static override is(error: unknown): error is QuorumError {
    return error instanceof QuorumError;
  }

  constructor(message: string, options: LockErrorOptions & { nodes: readonly NodeReason[] }) {
    super("ERR_LOCK_QUORUM", message, { retryable: true, ...options });
    this.nodes = options.nodes;
  }
}

/** What people can do about it, by what the operating system said. */
const HINTS: readonly (readonly [said: RegExp, hint: string])[] = [
  [/ECONNREFUSED/, "nothing listens at that address: is the server running, and are host and port right?"],
  [/ENOTFOUND|EAI_AGAIN/, "that name has no address: is it spelled right, and can this machine look it up?"],
  [
    /EHOSTUNREACH|ENETUNREACH|ETIMEDOUT/,
    "nothing answers at that address: is there a firewall or a network between?",
  ],
];

function hintOf(message: string): string {
  const hint = HINTS.find(([said]) => said.test(message))?.[1];
  return hint === undefined || message.includes(hint) ? "" : ` (${hint})`;
}

/** The store could not be asked or did not answer in time. */
export class StoreUnavailableError extends LockError {
  declare readonly code: "ERR_STORE_UNAVAILABLE";

  static {
    brand(this, "StoreUnavailableError");
  }

  static override is(error: unknown): error is StoreUnavailableError {
    return error instanceof StoreUnavailableError;
  }

  constructor(message: string, options: LockErrorOptions = {}) {
    super("ERR_STORE_UNAVAILABLE", message + hintOf(message), { retryable: true, ...options });
  }
}

/** The store can drop locks as it is set up (P19). Says what is misconfigured and how to fix it. */
export class UnsafeStoreError extends LockError {
  declare readonly code: "ERR_STORE_UNSAFE";
  readonly setting: string;
  readonly fix: string;

  static {
    brand(this, "UnsafeStoreError");
  }

  static override is(error: unknown): error is UnsafeStoreError {
    return error instanceof UnsafeStoreError;
  }

  constructor(message: string, options: LockErrorOptions & { setting: string; fix: string }) {
    super("ERR_STORE_UNSAFE", `${message}. What to do: ${options.fix}`, options);
    this.setting = options.setting;
    this.fix = options.fix;
  }
}

/** A guard has already let through a larger fence. */
export class StaleFenceError extends LockError {
  declare readonly code: "ERR_FENCE_STALE";
  readonly fence: bigint;
  readonly seen: bigint;

  static {
    brand(this, "StaleFenceError");
  }

  static override is(error: unknown): error is StaleFenceError {
    return error instanceof StaleFenceError;
  }

  constructor(message: string, options: LockErrorOptions & { fence: bigint; seen: bigint }) {
    super("ERR_FENCE_STALE", message, options);
    this.fence = options.fence;
    this.seen = options.seen;
  }
}

/** A guard finds nothing that it could guard. */
export class MissingRowError extends LockError {
  declare readonly code: "ERR_FENCE_MISSING";

  static {
    brand(this, "MissingRowError");
  }

  static override is(error: unknown): error is MissingRowError {
    return error instanceof MissingRowError;
  }

  constructor(message: string, options: LockErrorOptions = {}) {
    super("ERR_FENCE_MISSING", message, options);
  }
}

/** This store, or this platform, cannot do that. */
export class UnsupportedError extends LockError {
  declare readonly code: "ERR_LOCK_UNSUPPORTED";

  static {
    brand(this, "UnsupportedError");
  }

  static override is(error: unknown): error is UnsupportedError {
    return error instanceof UnsupportedError;
  }

  constructor(message: string, options: LockErrorOptions = {}) {
    super("ERR_LOCK_UNSUPPORTED", message, options);
  }
}

/** The call itself is wrong. Nothing was acquired. */
export class InvalidArgumentError extends LockError {
  declare readonly code: "ERR_LOCK_ARGUMENT";

  static {
    brand(this, "InvalidArgumentError");
  }

  static override is(error: unknown): error is InvalidArgumentError {
    return error instanceof InvalidArgumentError;
  }

  constructor(message: string, options: LockErrorOptions = {}) {
    super("ERR_LOCK_ARGUMENT", message, options);
  }
}

/** Every error of this package, told apart by `code`. */
export type AnyLockError =
  | LockTimeoutError
  | LockAbortedError
  | LockLostError
  | DeadlockError
  | QuorumError
  | StoreUnavailableError
  | UnsafeStoreError
  | StaleFenceError
  | MissingRowError
  | UnsupportedError
  | InvalidArgumentError;
