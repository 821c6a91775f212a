// The exit codes of the command, and the exit code of each error. Scripts depend on these numbers, so their
// meaning never changes.

import { LockError, type LockErrorCode } from "../surface.ts";
import { withInstallHint } from "./install-hint.ts";

export const EXIT = {
  usage: 64,
  unavailable: 69,
  internal: 70,
  busy: 75,
  lost: 79,
  notExecutable: 126,
  notFound: 127,
} as const;

/** The exit code for a child that died by signal n is this plus n, as in every shell. */
export const EXIT_BY_SIGNAL = 128;

const BY_CODE: Readonly<Record<LockErrorCode, number>> = {
  ERR_LOCK_ARGUMENT: EXIT.usage,
  ERR_LOCK_UNSUPPORTED: EXIT.unavailable,
  ERR_STORE_UNAVAILABLE: EXIT.unavailable,
  ERR_STORE_UNSAFE: EXIT.unavailable,
  ERR_LOCK_QUORUM: EXIT.unavailable,
  ERR_LOCK_TIMEOUT: EXIT.busy,
  ERR_LOCK_DEADLOCK: EXIT.busy,
  ERR_LOCK_ABORTED: EXIT.busy,
  ERR_LOCK_LOST: EXIT.lost,
  ERR_FENCE_STALE: EXIT.lost,
  ERR_FENCE_MISSING: EXIT.lost,
};

export function exitCodeOf(error: unknown): number {
  if (error instanceof CommandError) return error.exitCode;
  return LockError.is(error) ? BY_CODE[error.code] : EXIT.internal;
}

/** A failure of the command line itself. */
export class CommandError extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** The message of an error of holdfast; message and stack of any other error. */
export function describe(error: unknown): string {
  if (error instanceof CommandError) return error.message;
  if (LockError.is(error)) return withInstallHint(error.message);
  return `internal error: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`;
}
