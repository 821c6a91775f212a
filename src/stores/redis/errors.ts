// Errors of Redis and its clients as errors of ours: what happened and what to do (P17). Decides nothing, and
// keeps the cause.

import {
  isUnsent,
  LockError,
  StoreUnavailableError,
  UnsafeStoreError,
  UnsupportedError,
} from "../../core/errors.ts";
import { showKey } from "../../core/key.ts";
import { isConnectionLost } from "../shared/connection-lost.ts";
import { isForeign, withoutArguments } from "../shared/redis-failure.ts";
import { tlsFailure } from "../shared/tls-failure.ts";

interface Known {
  readonly pattern: RegExp;
  readonly say: string;
  /** Default true: the same call may succeed later. */
  readonly retryable?: boolean;
}

const KNOWN: readonly Known[] = [
  {
    pattern: /^READONLY/,
    say: "this node is a replica: connect to the primary, or wait for the failover to end",
  },
  { pattern: /^(MOVED|ASK)\b/, say: "the key is on its way to another node of the Cluster" },
  { pattern: /^LOADING/, say: "the server is still loading its data" },
  {
    pattern: /^(MASTERDOWN|CLUSTERDOWN|TRYAGAIN|UNBLOCKED|BUSY)\b/,
    say: "the server cannot serve at the moment",
  },
  {
    pattern: /^OOM/,
    say:
      "its memory is full (maxmemory): free some, or raise the limit. What is held can still be renewed " +
      "and released",
  },
  {
    pattern: /^MISCONF.*No space left/,
    say: "its disk is full, and it refuses changes until there is room: free some space",
  },
  {
    pattern: /^MISCONF/,
    say:
      "it cannot write to its disk, and refuses changes until it can: its log says why (often: the disk is " +
      "full)",
  },
  { pattern: /^NOREPLICAS/, say: "it has fewer replicas than min-replicas-to-write asks for" },
  {
    pattern: /^(NOAUTH|WRONGPASS)/,
    say: "the user name or the password is missing or wrong",
    retryable: false,
  },
  {
    // Scripts and transactions have messages of their own.
    pattern: /^NOPERM|^EXECABORT.*NOPERM|user executing the script can't/,
    say:
      "this user may not do that: it needs +evalsha +eval +time +get +set +del +exists +pexpire +pttl " +
      "+hmget +hgetall +hset +hdel +zadd +zrem +zcard +zrange +publish +subscribe +info +scan (with " +
      "replicas +wait +role, without scripts +watch +unwatch +multi +exec), the keys NAMESPACE:* and the " +
      "channels NAMESPACE:push:*",
    retryable: false,
  },
  { pattern: /client is closed/i, say: "the client is not connected: call its connect() first" },
];

/** Messages of node-redis, of ioredis and of topology/connection.ts. */
const CONNECTION_LOST =
  /^(Socket closed unexpectedly|Disconnects client|Connection is closed|the server hung up)/;

/** `doing` completes "Redis could not". */
export function redisError(error: unknown, doing: string, key?: string): LockError {
  withoutArguments(error);
  if (LockError.is(error)) return error;
  const detail = error instanceof Error ? error.message || error.name : String(error);
  if (isForeign(detail)) {
    const name = key === undefined ? "a lock" : showKey(key);
    return new UnsafeStoreError(
      `Redis holds something under the name of ${name} that holdfast did not write, or that was damaged`,
      {
        setting: "namespace",
        fix:
          "give holdfast a namespace of its own, or use one version of it for all processes; a record that " +
          "was damaged may be deleted once no process uses its key",
        key,
        cause: error,
      },
    );
  }
  const tls = tlsFailure(error);
  const known =
    tls === null ? KNOWN.find(({ pattern }) => pattern.test(detail)) : { say: tls, retryable: false };
  const why = known === undefined ? detail : `${known.say} (${detail.split("\n")[0]})`;
  return new StoreUnavailableError(`Redis could not ${doing}: ${why}`, {
    key,
    cause: error,
    retryable: known?.retryable ?? true,
    disconnected: isConnectionLost(error, CONNECTION_LOST),
    unsent: isUnsent(error),
  });
}

export function closedError(key?: string): StoreUnavailableError {
  return new StoreUnavailableError("the redis store is closed", { key, retryable: false });
}

/** For a client that cannot be duplicated. */
export function sessionError(): UnsupportedError {
  return new UnsupportedError(
    "this client cannot be duplicated, and `replicas` and locks without scripts need connections of their " +
      "own: give redis() a URL instead",
  );
}
