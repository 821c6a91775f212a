// Errors of etcd and its client as errors of holdfast: what happened and what to do (P17), with the original
// as the cause. Also says whether a failed call can have been carried out.

import { LockError, StoreUnavailableError, UnsupportedError } from "../../core/errors.ts";
import { tlsFailure } from "../shared/tls-failure.ts";

interface Known {
  readonly pattern: RegExp;
  readonly say: string;
  /** Default true: the same call may succeed later. */
  readonly retryable?: boolean;
}

const KNOWN: readonly Known[] = [
  {
    pattern: /database space exceeded/,
    say:
      "its database is full (NOSPACE): compact and defragment it, then disarm the alarm. " +
      "What is held can still be renewed and released",
  },
  { pattern: /no leader|leader changed|not leader/i, say: "the cluster has no leader at the moment" },
  {
    pattern: /request timed out|timed out/,
    say: "the cluster cannot agree at the moment: a majority of its members is needed",
  },
  { pattern: /corrupt/, say: "its data is corrupt (alarm CORRUPT): restore the member", retryable: false },
  { pattern: /too many requests/, say: "it has too many requests waiting" },
  {
    pattern: /too many operations in txn/,
    say: "these are too many keys for one transaction: take fewer at once, or raise --max-txn-ops",
    retryable: false,
  },
  {
    pattern: /authentication failed|invalid user ID or password/,
    say: "the user name or the password is wrong",
    retryable: false,
  },
  {
    pattern: /user name is empty/,
    say: "it asks for a user name and a password: etcd://user:password@host",
    retryable: false,
  },
  {
    pattern: /permission denied/,
    say: "this user may not do that: it needs read and write on everything under NAMESPACE/",
    retryable: false,
  },
  {
    pattern: /authentication is not enabled/,
    say: "a user was given, but authentication is off",
    retryable: false,
  },
];

const NOT_FOUND = 5;
/** Without a message of etcd, gRPC means that the connection was dropped or could not be opened. */
const UNAVAILABLE = 14;
/**
 * The server read the call and rejected it: INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED,
 * RESOURCE_EXHAUSTED, FAILED_PRECONDITION, OUT_OF_RANGE, UNAUTHENTICATED.
 */
const REJECTED: ReadonlySet<unknown> = new Set([3, NOT_FOUND, 7, 8, 9, 11, 16]);

/** Whether the call has certainly changed nothing. */
export function wasRejected(error: unknown): boolean {
  return REJECTED.has(codeOf(error));
}

export function isLeaseGone(error: unknown): boolean {
  return codeOf(error) === NOT_FOUND && /lease not found/.test(detailOf(error));
}

/** The member answers and knows no leader of its cluster. */
export function isLeaderless(error: unknown): boolean {
  return detailOf(error).startsWith("etcdserver: no leader");
}

export function isFull(error: unknown): boolean {
  return /database space exceeded/.test(detailOf(error));
}

/** Whether the connection ended before the reply, or could not be opened. */
export function isDisconnected(error: unknown): boolean {
  if (codeOf(error) !== UNAVAILABLE) return false;
  return !KNOWN.some(({ pattern }) => pattern.test(detailOf(error)));
}

/** `doing` completes "etcd could not". */
export function etcdError(error: unknown, doing: string, key?: string): LockError {
  if (LockError.is(error)) return error;
  const detail = detailOf(error);
  const tls = tlsFailure(error);
  const known =
    tls === null ? KNOWN.find(({ pattern }) => pattern.test(detail)) : { say: tls, retryable: false };
  const why = known === undefined ? detail : `${known.say} (${detail})`;
  return new StoreUnavailableError(`etcd could not ${doing}: ${why}`, {
    key,
    cause: error,
    retryable: known?.retryable ?? true,
    disconnected: isDisconnected(error),
  });
}

/** Errors of calls that were not sent, because no member was found. */
const noMember = new WeakSet<object>();

export function isNoMember(error: unknown): boolean {
  return typeof error === "object" && error !== null && noMember.has(error);
}

export function noMemberError(
  endpoints: readonly string[],
  failures: readonly unknown[],
): StoreUnavailableError {
  const details = failures.map((failure) => {
    const tls = tlsFailure(failure);
    return tls === null ? detailOf(failure) : `${tls} (${detailOf(failure)})`;
  });
  const reasons = [...new Set(details)].join("; ") || "they did not answer in time";
  const error = new StoreUnavailableError(
    `no member of etcd at ${endpoints.join(", ")} answers and knows a leader: ${reasons}`,
    { cause: failures[0], retryable: !isNeverTrusted(failures) },
  );
  noMember.add(error);
  return error;
}

/** If no certificate is trusted, a retry does not help. Members that did not answer prove nothing. */
function isNeverTrusted(failures: readonly unknown[]): boolean {
  return failures.length > 0 && failures.every((failure) => tlsFailure(failure) !== null);
}

export function credentialsError(cause: unknown): StoreUnavailableError {
  return new StoreUnavailableError(`credentials() of etcd() failed: ${detailOf(cause)}`, { cause });
}

export function closedError(key?: string): StoreUnavailableError {
  return new StoreUnavailableError("the etcd store is closed", { key, retryable: false });
}

export function noClientError(): UnsupportedError {
  return new UnsupportedError("the etcd store needs a client: npm i @grpc/grpc-js");
}

function codeOf(error: unknown): unknown {
  return (error as { code?: unknown } | null)?.code;
}

/** gRPC's text around the error of the socket. */
const NOT_CONNECTED = /^No connection established\. Last error: (?:Error: )?(.+?)\.? Resolution note: .*$/;

function detailOf(error: unknown): string {
  const { details, message } = (error ?? {}) as { details?: string; message?: string };
  const [line = ""] = (details || message || String(error)).split("\n");
  return line.replace(NOT_CONNECTED, "$1");
}
