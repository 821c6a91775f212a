// Every way a lock can fail, one class per cause (P17). Imports nothing.
// A message says what happened, to which key, after how long, who holds it and what to do. Ids never appear in it.

const BRAND: symbol = Symbol.for("holdfast.LockError");

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
  readonly retryable?: boolean;
  /**
   * The connection ended before the reply. The call may have been carried out; core repeats idempotent calls.
   */
  readonly disconnected?: boolean;
  /** The call was certainly not carried out and never will be: it was not sent, or the server refused it. */
  readonly unsent?: boolean;
}

/** Errors of calls whose connection ended before the reply. */
const disconnected = new WeakSet<object>();

export function isDisconnected(error: unknown): boolean {
  return typeof error === "object" && error !== null && disconnected.has(error);
}

/** Errors of calls that were certainly not carried out. */
const unsent = new WeakSet<object>();

/** Gives the error itself. */
export function markUnsent<E>(error: E): E {
  if (typeof error === "object" && error !== null) unsent.add(error);
  return error;
}

export function isUnsent(error: unknown): boolean {
  return typeof error === "object" && error !== null && unsent.has(error);
}

/** The parent of all of them. `LockError.is(e)` also knows errors of another copy of the package. */
export class LockError extends Error {
  readonly code: LockErrorCode;
  readonly key: string | undefined;
  /** Whether the same call may succeed later without anybody changing anything. */
  readonly retryable: boolean;

  constructor(code: LockErrorCode, message: string, options: LockErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = new.target.name;
    this.code = code;
    this.key = options.key;
    this.retryable = options.retryable ?? false;
    Object.defineProperty(this, BRAND, { value: true });
    if (options.disconnected === true) disconnected.add(this);
    if (options.unsent === true) markUnsent(this);
  }

  static is(error: unknown): error is LockError {
    return typeof error === "object" && error !== null && (error as Record<symbol, unknown>)[BRAND] === true;
  }
}

/** A holder as errors show it: everything plain. */
export interface HolderSummary {
  readonly label: string;
  readonly mode: "exclusive" | "shared";
  readonly permits: number;
  readonly fence: string;
  readonly remainingMs: number;
  readonly heldMs: number;
}

/** What one of several nodes said. */
export interface NodeReason {
  readonly node: string;
  readonly reason: string;
}

/** Busy: not acquired within `wait`. */
export class LockTimeoutError extends LockError {
  readonly waitedMs: number;
  readonly holders: readonly HolderSummary[];
  /** Empty unless the store has several nodes. */
  readonly nodes: readonly NodeReason[];

  constructor(
    message: string,
    options: LockErrorOptions & {
      waitedMs: number;
      holders: readonly HolderSummary[];
      nodes?: readonly NodeReason[];
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
  constructor(message: string, options: LockErrorOptions = {}) {
    super("ERR_LOCK_ABORTED", message, options);
  }
}

/** The lease ended before its holder let go. */
export class LockLostError extends LockError {
  readonly reason: string;
  readonly fence: string | undefined;
  /** More of the reason, such as the words of the operator who revoked it. */
  readonly detail: string | undefined;
  /** What the callback of `using` returned although the lease was lost. */
  result: unknown = undefined;

  constructor(
    message: string,
    options: LockErrorOptions & { reason: string; fence?: string; detail?: string | undefined },
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
  readonly cycle: readonly DeadlockStep[];

  constructor(message: string, options: LockErrorOptions & { cycle: readonly DeadlockStep[] }) {
    super("ERR_LOCK_DEADLOCK", message, options);
    this.cycle = options.cycle;
  }
}

/** No majority of nodes agreed. */
export class QuorumError extends LockError {
  readonly nodes: readonly NodeReason[];

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
  constructor(message: string, options: LockErrorOptions = {}) {
    super("ERR_STORE_UNAVAILABLE", message + hintOf(message), { retryable: true, ...options });
  }
}

/** The store can drop locks as it is set up (P19). Says what is misconfigured and how to fix it. */
export class UnsafeStoreError extends LockError {
  readonly setting: string;
  readonly fix: string;

  constructor(message: string, options: LockErrorOptions & { setting: string; fix: string }) {
    super("ERR_STORE_UNSAFE", `${message}. What to do: ${options.fix}`, options);
    this.setting = options.setting;
    this.fix = options.fix;
  }
}

/** A guard has already let through a larger fence. */
export class StaleFenceError extends LockError {
  readonly fence: bigint;
  readonly seen: bigint;

  constructor(message: string, options: LockErrorOptions & { fence: bigint; seen: bigint }) {
    super("ERR_FENCE_STALE", message, options);
    this.fence = options.fence;
    this.seen = options.seen;
  }
}

/** A guard finds nothing that it could guard. */
export class MissingRowError extends LockError {
  constructor(message: string, options: LockErrorOptions = {}) {
    super("ERR_FENCE_MISSING", message, options);
  }
}

/** This store, or this platform, cannot do that. */
export class UnsupportedError extends LockError {
  constructor(message: string, options: LockErrorOptions = {}) {
    super("ERR_LOCK_UNSUPPORTED", message, options);
  }
}

/** The call itself is wrong. Nothing was acquired. */
export class InvalidArgumentError extends LockError {
  constructor(message: string, options: LockErrorOptions = {}) {
    super("ERR_LOCK_ARGUMENT", message, options);
  }
}
