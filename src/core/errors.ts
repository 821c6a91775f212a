// The errors of the package, one class per cause (P17). A message says what happened, to which key, after
// how long, who holds the key and what to do. It never contains a request id.
//
// Each class has a brand: a symbol of the global registry on its prototype. `instanceof` and `is` look
// for the brand, so that they also recognise errors of another copy of the package, each with its class.

import type { LossReason, NodeReason } from "./store.ts";
import { processWide } from "./util/process-wide.ts";

/** The brand of each class of this copy. A user's subclass has none; `instanceof` works for it as usual. */
const brands = new WeakMap<object, symbol>();

function brand(of: { readonly prototype: LockError }, name: string): void {
  const symbol = Symbol.for(`holdfast.${name}`);
  brands.set(of, symbol);
  Object.defineProperty(of.prototype, symbol, { value: true });
  // A literal, because a bundler may shorten the name of the class.
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

/** The stable codes of the errors. */
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

/** Options of the constructors of errors. */
export interface LockErrorOptions {
  readonly key?: string | undefined;
  readonly cause?: unknown;
  readonly retryable?: boolean | undefined;
  /**
   * The connection ended before the reply. The server may have executed the call; core repeats idempotent
   * calls.
   */
  readonly disconnected?: boolean | undefined;
  /** The call was certainly not executed and never will be: it was not sent, or the server rejected it. */
  readonly unsent?: boolean | undefined;
}

/**
 * Errors of calls whose connection ended before the reply. Process-wide, because the store that throws
 * them may belong to another copy of the package than the core that reads them.
 */
const disconnected = processWide("disconnected", () => new WeakSet<object>());

export function isDisconnected(error: unknown): boolean {
  return typeof error === "object" && error !== null && disconnected.has(error);
}

/** Errors of calls that were certainly not executed. */
const unsent = processWide("unsent", () => new WeakSet<object>());

/** Marks an error as unsent, and returns it. */
export function markUnsent<E>(error: E): E {
  if (typeof error === "object" && error !== null) unsent.add(error);
  return error;
}

export function isUnsent(error: unknown): boolean {
  return typeof error === "object" && error !== null && unsent.has(error);
}

/**
 * The parent of all errors of this package. `LockError.is(e)` narrows to `AnyLockError`, a union by `code`.
 *
 * @example
 * if (LockError.is(error) && error.code === "ERR_LOCK_TIMEOUT") console.log(error.holders);
 */
export class LockError extends Error {
  /** A stable code, such as `ERR_LOCK_TIMEOUT`. */
  readonly code: LockErrorCode;
  /** The first key of the call, if the error is about a key. */
  readonly key: string | undefined;
  /** Whether the same call may succeed later without any change. */
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

  /** Plain data with fences as decimal strings. Omits the stack and the `result` of a callback. */
  toJSON(): Record<string, unknown> {
    const { name, message } = this;
    const own = Object.fromEntries(Object.entries(this));
    return plain({ ...own, name, message, result: undefined }) as Record<string, unknown>;
  }
}

/** A copy of the value with each bigint as a decimal string, for JSON. */
export function plain(value: unknown): unknown {
  if (typeof value === "bigint") return String(value);
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, plain(one)]));
}

/** A holder of a key, in errors and events. */
export interface HolderSummary {
  readonly label: string;
  readonly mode: "exclusive" | "shared";
  readonly permits: number;
  readonly fence: bigint;
  readonly remainingMs: number;
  readonly heldMs: number;
}

/** The key was busy for all of `wait`. */
export class LockTimeoutError extends LockError {
  declare readonly code: "ERR_LOCK_TIMEOUT";
  readonly waitedMs: number;
  /** Some of the holders, at most three. */
  readonly holders: readonly HolderSummary[];
  /** One entry per node. Empty unless the store has several nodes. */
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

/** The caller's `signal` or `close()` ended the wait. `cause` is the reason of the signal. */
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

/** The lease ended before its holder released it. */
export class LockLostError extends LockError {
  declare readonly code: "ERR_LOCK_LOST";
  readonly reason: LossReason;
  /** The fence of the first key. */
  readonly fence: bigint | undefined;
  /** The reason that the operator gave for a revocation. */
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

/** One step of a cycle: the actor with this label has the key `holds` and waits for the key `waitsFor`. */
export interface DeadlockStep {
  readonly label: string;
  readonly holds: string;
  readonly waitsFor: string;
}

/** Waiting would never end: the caller holds the key itself, or actors wait for each other in a cycle. */
export class DeadlockError extends LockError {
  declare readonly code: "ERR_LOCK_DEADLOCK";
  /** Every step of the cycle. */
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
  /** One entry per node. */
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

/** What to check for an error of the operating system. */
const HINTS: readonly (readonly [pattern: RegExp, hint: string])[] = [
  [
    /ECONNREFUSED/,
    "nothing listens at that address: check that the server is running, and the host and port",
  ],
  [/ENOTFOUND|EAI_AGAIN/, "that name has no address: check its spelling, and the DNS of this machine"],
  [
    /EHOSTUNREACH|ENETUNREACH|ETIMEDOUT/,
    "nothing answers at that address: check the network and the firewalls between",
  ],
];

function hintOf(message: string): string {
  const hint = HINTS.find(([pattern]) => pattern.test(message))?.[1];
  return hint === undefined || message.includes(hint) ? "" : ` (${hint})`;
}

/** The store was unreachable or did not answer in time. */
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

/** The store is configured so that it can drop locks (P19). */
export class UnsafeStoreError extends LockError {
  declare readonly code: "ERR_STORE_UNSAFE";
  /** The name of the unsafe setting. */
  readonly setting: string;
  /** How to make it safe. */
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

/** A guard has accepted a larger fence, or `revoke` named a fence that is not the holder's. */
export class StaleFenceError extends LockError {
  declare readonly code: "ERR_FENCE_STALE";
  /** The fence of the call. */
  readonly fence: bigint;
  /** The fence that the guard has accepted, or that the holder has. */
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

/** `guardRow` found no row with the id. */
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

/** The store or the platform does not support the call. */
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

/** An argument is invalid. Nothing was acquired. */
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

/**
 * All errors of this package. TypeScript narrows the union by `code`.
 *
 * @example
 * if (LockError.is(error) && error.code === "ERR_LOCK_LOST") console.error(error.reason);
 */
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
