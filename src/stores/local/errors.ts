// Converts errors of the file system: what happened, to which file, and what to do (P17). The original error
// is the `cause`.

import { LockError, StoreUnavailableError, UnsafeStoreError } from "../../core/errors.ts";
import { showKey } from "../../core/key.ts";

export function errno(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" ? code : "";
}

const DENIED =
  "permission is denied. Run as the owner of the directory, or share it with a group (chmod 2770)";

const UNAVAILABLE: Readonly<Record<string, string>> = {
  ENOSPC: "there is no room left. Nothing was changed; free some space and try again",
  EDQUOT: "this user's quota is used up. Nothing was changed; free some space and try again",
  EFBIG: "the limit on file sizes (ulimit -f) is reached. Nothing was changed; raise it",
  EROFS: "the file system is read-only. Make it writable, or name a directory that is",
  EACCES: DENIED,
  EPERM: DENIED,
  EMFILE: "this process has too many files open. Raise its limit (ulimit -n)",
  ENFILE: "the machine has too many files open. Raise fs.file-max",
  ENOENT: "it does not exist any more. Somebody removed it while it was in use",
  ENOTDIR: "a part of the path is not a directory",
};

/** `doing` completes "the local store could not". */
export function fileError(error: unknown, doing: string, path: string, key?: string): LockError {
  if (LockError.is(error)) return error;
  const code = errno(error);
  const why = UNAVAILABLE[code] ?? (error instanceof Error ? error.message : String(error));
  const retryable = code !== "EROFS" && code !== "EACCES" && code !== "EPERM" && code !== "ENOTDIR";
  return new StoreUnavailableError(
    `the local store could not ${doing} ${path}: ${why}${code && ` (${code})`}`,
    {
      key,
      cause: error,
      retryable,
    },
  );
}

/** A damaged log never means that its keys are free (P19). */
export function damaged(path: string, what: string, key?: string): UnsafeStoreError {
  const name = key === undefined ? "its key" : showKey(key);
  return new UnsafeStoreError(`the file ${path} is damaged (${what}), so the holder of ${name} is unknown`, {
    setting: path,
    fix: "stop every process that uses this directory, then delete the file",
    key,
  });
}

export function otherVersion(path: string, found: number, own: number, key?: string): UnsafeStoreError {
  const name = key === undefined ? "" : ` of ${showKey(key)}`;
  return new UnsafeStoreError(
    `the file ${path}${name} is of format ${found}, and this version of holdfast reads format ${own}`,
    {
      setting: path,
      fix: "use one version of holdfast for all processes; once none of the other runs, delete the file",
      key,
    },
  );
}

/** The error for a change in a directory that belongs to another user than root. */
export function readOnlyError(path: string, owner: number, key?: string): UnsafeStoreError {
  return new UnsafeStoreError(
    `root does not take locks in ${path}, which belongs to user ${owner} and could lead root to other files`,
    {
      setting: path,
      fix: `run this as that user (setpriv --reuid=${owner} ...), or name a directory that belongs to root`,
      key,
    },
  );
}

export function closedError(key?: string): StoreUnavailableError {
  return new StoreUnavailableError("the local store is closed", { key, retryable: false });
}
