// Errors of ZooKeeper as errors of holdfast: what happened and what to do (P17), with the original as the
// cause.

import {
  InvalidArgumentError,
  LockError,
  StoreUnavailableError,
  UnsupportedError,
} from "../../core/errors.ts";
import { tlsFailure } from "../shared/tls-failure.ts";
import { Code, ConnectionLost, isCode, RequestTooLarge, ServerError } from "./wire/errors.ts";
import { LONGEST_REQUEST } from "./wire/frames.ts";

interface Known {
  readonly code: number;
  readonly say: string;
  readonly retryable: boolean;
}

const KNOWN: readonly Known[] = [
  {
    code: Code.noAuth,
    say:
      "these credentials may not access the nodes of the lock: all processes need the same user and " +
      "password, and the right to create below the chroot",
    retryable: false,
  },
  { code: Code.authFailed, say: "the server rejects the user name or the password", retryable: false },
  { code: Code.sessionExpired, say: "the session has expired", retryable: true },
  { code: Code.sessionMoved, say: "the session has moved to another server", retryable: true },
  { code: Code.throttled, say: "the server is overloaded", retryable: true },
];

/** `doing` completes "ZooKeeper could not". */
export function zookeeperError(error: unknown, doing: string, key?: string): LockError {
  if (LockError.is(error)) return error;
  if (error instanceof RequestTooLarge)
    return new InvalidArgumentError(`ZooKeeper could not ${doing}: ${tooLarge(error)}`, {
      key,
      cause: error,
    });
  if (isCode(error, Code.unimplemented)) {
    return new UnsupportedError(`this ZooKeeper is too old: holdfast needs 3.5 or later`, {
      key,
      cause: error,
    });
  }
  const detail = error instanceof Error ? error.message || error.name : String(error);
  const tls = tlsFailure(error);
  const by = (one: ServerError): Known | undefined => KNOWN.find(({ code }) => code === one.code);
  const said = error instanceof ServerError ? by(error) : undefined;
  const known = tls === null ? said : { say: tls, retryable: false };
  const why = known === undefined ? detail : `${known.say} (${detail})`;
  return new StoreUnavailableError(`ZooKeeper could not ${doing}: ${why}`, {
    key,
    cause: error,
    retryable: known?.retryable ?? true,
    disconnected: error instanceof ConnectionLost,
  });
}

/** An attempt for several keys is one transaction (P9), and each of its nodes names all of the keys. */
export function tooManyKeysError(keys: readonly string[], cause: RequestTooLarge): InvalidArgumentError {
  return new InvalidArgumentError(
    `ZooKeeper cannot lock these ${keys.length} keys in one call: ${tooLarge(cause)}. ` +
      "Lock fewer keys per call, or shorter ones",
    { key: keys[0], cause },
  );
}

function tooLarge({ bytes }: RequestTooLarge): string {
  const [size, longest] = [bytes, LONGEST_REQUEST].map((one) => one.toLocaleString("en-US"));
  return `the request has ${size} bytes, and a server accepts ${longest} bytes (jute.maxbuffer)`;
}

export function sessionFullError(
  key: string | undefined,
  nodes: number,
  bytes: number,
  longest: number,
): StoreUnavailableError {
  const [size, limit] = [bytes, longest].map((one) => one.toLocaleString("en-US"));
  return new StoreUnavailableError(
    `this process holds or waits for ${nodes} keys in ZooKeeper, and one more needs ${size} bytes ` +
      `of at most ${limit} per session: lock fewer keys at a time, or open a second createLocks()`,
    { key },
  );
}

export function closedError(key?: string): StoreUnavailableError {
  return new StoreUnavailableError("the zookeeper store is closed", { key, retryable: false });
}
