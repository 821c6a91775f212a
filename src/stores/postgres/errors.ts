// How PostgreSQL and its client fail, told to people: what happened and what to do (P17). Never decides
// anything; the cause is kept.

import { LockError, StoreUnavailableError } from "../../core/errors.ts";
import { isConnectionLost } from "../shared/connection-lost.ts";
import { tlsFailure } from "../shared/tls-failure.ts";

interface Known {
  readonly code: RegExp;
  readonly say: string;
  /** Default true: the same call may succeed later. */
  readonly retryable?: boolean;
}

/** Shutting down: admin_shutdown, crash_shutdown, cannot_connect_now. */
const LEAVING = /^57P0[1-3]$/;
/** Said by pg, or by postgres.js. */
const CONNECTION_LOST =
  /^Connection terminated|^Client has encountered a connection error|^write CONNECTION_(CLOSED|DESTROYED)/;

const KNOWN: readonly Known[] = [
  {
    code: /^25006$/,
    say:
      "it takes no writes: it is a standby, or default_transaction_read_only is on. Connect to the " +
      "primary, or wait for the failover to end",
  },
  { code: LEAVING, say: "it is starting up or shutting down" },
  { code: /^53300$/, say: "it has no connection to spare (max_connections)" },
  { code: /^53100$/, say: "its disk is full: free some space, and start it again should it have ended" },
  { code: /^53(200|400)$/, say: "its memory or a configured limit is exhausted" },
  { code: /^57014$/, say: "it cancelled the statement (statement_timeout, or somebody did)" },
  {
    code: /^55P03$/,
    say: "a row stayed locked for too long (lock_timeout): look for a transaction that was left open",
  },
  { code: /^28/, say: "the user name or the password is missing or wrong", retryable: false },
  { code: /^3D000$/, say: "there is no such database", retryable: false },
];

/** Raised by functions.sql and upgrade.sql. */
const DAMAGED = "HF001";
const OLD_LOCKS = "HF022";

const MISSING_SCHEMA =
  "A user who may create tables and functions (CREATE on the schema) has to run what " +
  "`holdfast schema postgres` prints, and to grant the user of the locks USAGE on the schema, EXECUTE on " +
  "the functions (every role has it by default) and SELECT, INSERT, UPDATE, DELETE on the tables";
const UPGRADE =
  "Locks of versions 0.1 and 0.2 are in other tables, which the new ones do not exclude: stop the " +
  "processes of the old version, and wait until their leases end";

/** The row that a function refused: its name in hex. null: another error. */
export function damagedName(error: unknown): string | null {
  if (!isServerError(error) || error.code !== DAMAGED) return null;
  return String((error as { detail?: unknown }).detail);
}

/** Errors that the server itself has sent have a severity. */
export function isServerError(error: unknown): error is Error & { readonly code: string } {
  return error instanceof Error && typeof (error as { severity?: unknown }).severity === "string";
}

/** The server could not work on a value: of the statement, or of the row that the statement met. */
export function isDataError(error: unknown): boolean {
  return isServerError(error) && error.code.startsWith("22");
}

/** After any other error of the server the connection is as it was. */
export function endsConnection(error: unknown): boolean {
  return !isServerError(error) || (error as { severity?: unknown }).severity === "FATAL";
}

/** `doing` completes "PostgreSQL could not". */
export function postgresError(error: unknown, doing: string, key: string | undefined): LockError {
  if (LockError.is(error)) return error;
  const detail = error instanceof Error ? error.message || error.name : String(error);
  const code = isServerError(error) ? error.code : "";
  if (code === "42703") {
    return new StoreUnavailableError(
      `PostgreSQL could not ${doing}: ${detail}. A table of that name was made by somebody else or by ` +
        `another version of holdfast: rename it, or name others with ?table=NAME`,
      { key, cause: error, retryable: false },
    );
  }
  if (code === "42P01" || code === "42883" || code === "42501") {
    return new StoreUnavailableError(`PostgreSQL could not ${doing}: ${detail}. ${MISSING_SCHEMA}`, {
      key,
      cause: error,
      retryable: false,
    });
  }
  if (code === OLD_LOCKS) {
    return new StoreUnavailableError(`PostgreSQL could not ${doing}: ${detail}. ${UPGRADE}`, {
      key,
      cause: error,
    });
  }
  const tls = tlsFailure(error);
  const known = tls === null ? KNOWN.find((one) => one.code.test(code)) : { say: tls, retryable: false };
  const why = known === undefined ? detail : `${known.say} (${detail})`;
  return new StoreUnavailableError(`PostgreSQL could not ${doing}: ${why}`, {
    key,
    cause: error,
    retryable: known?.retryable ?? true,
    disconnected: LEAVING.test(code) || isConnectionLost(error, CONNECTION_LOST),
  });
}

/**
 * Whether no later attempt to connect can succeed: wrong password, no such database, untrusted certificate.
 */
export function isPermanent(error: unknown): boolean {
  return !postgresError(error, "be reached", undefined).retryable;
}

/**
 * The server has rolled the statement back: a deadlock's victim, a lost race under a strict isolation level,
 * a lock not had in time.
 */
export function isUndone(error: unknown): boolean {
  return isServerError(error) && /^(40P01|40001)$/.test(error.code);
}
