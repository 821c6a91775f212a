// How MySQL, MariaDB and their client fail, told to people: what happened and what to do (P17). Never decides
// anything but whether the same statement is worth another look; the cause is kept.

import { LockError, StoreUnavailableError, UnsafeStoreError } from "../../core/errors.ts";
import { showKey } from "../../core/key.ts";
import { isConnectionLost } from "../shared/connection-lost.ts";
import { tlsFailure } from "../shared/tls-failure.ts";

interface Known {
  readonly say: string;
  /** Default true: the same call may succeed later. */
  readonly retryable?: boolean;
}

const KNOWN: Readonly<Record<number, Known>> = {
  1021: { say: "its disk is full: free some space" },
  1040: { say: "it has no connection left (max_connections): raise the limit, or use fewer" },
  1044: { say: "this user may not use that database", retryable: false },
  1045: { say: "the user name or the password is wrong", retryable: false },
  1049: { say: "there is no such database: create it first", retryable: false },
  1053: { say: "it is shutting down" },
  1054: {
    say: "somebody else or another version made a table holdfast_%: rename it, or use another database",
    retryable: false,
  },
  1105: { say: "it could not commit" },
  1114: { say: "its disk or its tablespace is full: free some space" },
  1142: {
    say: "this user may not do that: it needs SELECT, INSERT, UPDATE, DELETE on the tables holdfast_%",
    retryable: false,
  },
  1146: {
    say: "a table of holdfast is gone, and with it who held what: it is made again with the next call",
  },
  1305: { say: "a procedure of holdfast is gone: it is made again with the next call" },
  1370: {
    say: "this user may not run the procedures: it needs EXECUTE on the procedures holdfast_%",
    retryable: false,
  },
  1203: { say: "this user has no connection left (max_user_connections)" },
  1205: {
    say: "a row stayed locked for too long: something holds a transaction open on the tables of holdfast",
  },
  1213: { say: "it was chosen as the victim of a deadlock again and again" },
  1227: { say: "this user may not do that", retryable: false },
  1290: { say: "it is read-only: connect to the primary, or wait for the failover to end" },
  1792: { say: "it is read-only: connect to the primary, or wait for the failover to end" },
  1836: { say: "it is read-only: connect to the primary, or wait for the failover to end" },
};

export const NO_SUCH_TABLE = 1146;
/** A table or a procedure is missing. */
export const INCOMPLETE_SCHEMA: readonly number[] = [NO_SUCH_TABLE, 1305];
export const DENIED: readonly number[] = [1044, 1142, 1227, 1370];
export const READ_ONLY: readonly number[] = [1290, 1792, 1836];
/** NOWAIT answers 1205 on MariaDB and 3572 on MySQL. */
export const LOCKED: readonly number[] = [1205, 3572];
/** By KILL QUERY. */
export const INTERRUPTED = 1317;
const DEADLOCK = 1213;
/** Numbers out of range, and what the procedures report. A text that is too long is the statement's own. */
const DAMAGED_STATE = /^(22(?!001)|45002$)/;
const PRIMARY_MOVED_STATE = "45001";

function stateOf(error: unknown): string {
  const state: unknown = (error as { sqlState?: unknown } | null)?.sqlState;
  return typeof state === "string" ? state : "";
}

/** The server could not work on a value: of the statement, or of the row that the statement met. */
export function isDamage(error: unknown): boolean {
  return DAMAGED_STATE.test(stateOf(error));
}

/** A step found that another server is the primary. Nothing was changed: the same step may be tried again. */
export function isPrimaryMoved(error: unknown): boolean {
  return stateOf(error) === PRIMARY_MOVED_STATE;
}

export function damagedRow(key: string, cause?: unknown): UnsafeStoreError {
  return new UnsafeStoreError(
    `the record of ${showKey(key)} is damaged, or holdfast did not write it, so nobody can know who ` +
      `holds the key`,
    {
      setting: "record",
      fix: "stop every process that uses this key, then delete its rows (namespace and key stand in them)",
      key,
      cause,
    },
  );
}

export function codeOf(error: unknown): number {
  const code = (error as { errno?: unknown } | null)?.errno;
  return typeof code === "number" ? code : 0;
}

/** The victim of a deadlock: nothing has happened, and the same step may go through. */
export function isDeadlock(error: unknown): boolean {
  return codeOf(error) === DEADLOCK;
}

/**
 * The victim of a deadlock, or a lock-wait timeout: nothing has happened, and the same statement may go
 * through.
 */
export function isPassing(error: unknown): boolean {
  const code = codeOf(error);
  return code === DEADLOCK || LOCKED.includes(code);
}

/** Shutting down, killed, or said by a server that has just become a replica. */
export const LEAVING: readonly number[] = [1053, 1152, 1184, 1927, 3169, 4031];
/** Said by mysql2 and by client.ts. */
const CONNECTION_LOST =
  /^Connection lost|^the (connection failed|server ended the connection|connection was given up)/;

/** Each part of the server has a number of its own for it; all say so in words. */
const NO_ROOM = /No space left on device|\berror 28\b/;
const FULL: Known = { say: "its disk is full: free some space" };

/** `doing` completes "MySQL could not". */
export function mysqlError(error: unknown, doing: string, key?: string): LockError {
  if (LockError.is(error)) return error;
  if (key !== undefined && isDamage(error)) return damagedRow(key, error);
  const detail = error instanceof Error ? error.message || error.name : String(error);
  const tls = tlsFailure(error);
  const said = KNOWN[codeOf(error)] ?? (NO_ROOM.test(detail) ? FULL : undefined);
  const known = tls === null ? said : { say: `${tls}${hint(detail)}`, retryable: false };
  const why = known === undefined ? detail : `${known.say} (${detail})`;
  return new StoreUnavailableError(`MySQL could not ${doing}: ${why}`, {
    key,
    cause: error,
    retryable: known?.retryable ?? true,
    disconnected: LEAVING.includes(codeOf(error)) || isConnectionLost(error, CONNECTION_LOST),
  });
}

/** mysql2 never checks an address: it looks for this name instead. */
function hint(detail: string): string {
  return detail.includes("Host: localhost.")
    ? ". mysql2 can check a certificate for a name only, not for an IP address"
    : "";
}

export function closedError(key?: string): StoreUnavailableError {
  return new StoreUnavailableError("the mysql store is closed", { key, retryable: false });
}
