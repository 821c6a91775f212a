// What the lease table needs of a database, as a port: a few statements, each of them atomic by itself and decided under
// the server's clock. A dialect implements it; the rules are not here but in ledger.ts, and who calls what in lease-table.ts.
//
// One row per key, in one of two forms. Short: nobody, or one exclusive holder, in plain columns, which a single statement can
// grant and release. Full: everything else, as text that only the rules read. Every change raises `version`.
//
// Why a decision may be older than its write. A step reads rows and the server's time t0 in one statement, decides, and writes
// only if no row has changed since. What had expired at t0 has expired for good, because a renewal would have changed the
// row. The end of a lease is reckoned from t0, which is later than the send that the holder's window counts from, and the
// fence from `last`, which the write has proved to be the newest. So the write may be late, never wrong.

import type { Finding, HolderInfo, Io, TransactionDesk } from "../../core/store.ts";
import type { CallContext } from "./retry-while-unsent.ts";

export type Patience = CallContext;

/** Which row: the digest by which the database finds it, and the key itself. */
export interface RowName {
  readonly digest: Buffer;
  readonly key: string;
}

/** The one exclusive holder of the short form. Times are ms of the server's clock. */
export interface LoneHolder {
  readonly id: string;
  readonly proc: string;
  readonly label: string;
  readonly actor: string;
  readonly fence: number;
  readonly room: number;
  readonly used: number;
  readonly since: number;
  readonly until: number;
}

/** What a row holds. */
export interface RowState {
  readonly last: number;
  /** JSON: by opened store, the oldest request that is still open there, and when that was told. */
  readonly marks: string;
  /** Short form: the holder, if any. In full form the first holder, for people. */
  readonly holder: LoneHolder | null;
  /** Full form: JSON in plain ASCII. null is short form. */
  readonly record: string | null;
  /** By when all of it is over, so that the row may be cleaned away some time after. */
  readonly overMs: number;
}

export interface TableRow extends RowState {
  readonly version: number;
}

/** The last heartbeat of a waiter. Kept beside the rows, so that a heartbeat never disturbs a change. */
export interface Beat {
  readonly id: string;
  readonly seq: number;
  readonly seenMs: number;
}

export interface Reading {
  readonly nowUs: number;
  /** No row that was cleaned away had a larger fence. */
  readonly floor: number;
  /** false: the server has become the primary so lately that it must not grant anything yet. */
  readonly mayGrant?: boolean;
  /** In the order of the names; null where there is none. */
  readonly rows: readonly (TableRow | null)[];
  /** Of each row. */
  readonly beats: readonly (readonly Beat[])[];
}

export interface Change {
  readonly name: RowName;
  /** The version that was read; 0 where there was no row. Several changes at once have none of these. */
  readonly version: number;
  readonly state: RowState;
  /** Who has left the line: their heartbeats go. */
  readonly left: readonly string[];
}

/** To be told to another opened store, in the same step. */
export interface Push {
  readonly proc: string;
  readonly words: string;
}

/** One exclusive lock, to be had in one statement if nobody holds it, waits for it or has ended this request. */
export interface Grab {
  readonly name: RowName;
  readonly id: string;
  readonly proc: string;
  readonly turn: number;
  readonly label: string;
  readonly actor: string;
  readonly room: number;
  /** ttl + grace. */
  readonly lastsMs: number;
}

/** One exclusive lock, to be let go in one statement if this id holds it and nobody waits. */
export interface Drop {
  readonly name: RowName;
  readonly id: string;
  readonly proc: string;
  /** All requests of this opened store with a lower number have ended. */
  readonly open: number;
  /** The last fence that was used. */
  readonly used: number;
}

export interface Extension {
  readonly name: RowName;
  readonly id: string;
  readonly lastsMs: number;
  readonly used: number;
  readonly label: string;
}

/** `locked`: somebody else has locked the row. `other`: this id does not hold it in short form. */
export type Extended = "renewed" | "locked" | "other";

/** Keys that are kept for a transaction until it has locked their rows. */
export interface Reservation {
  readonly id: string;
  /** One per key. */
  readonly fences: readonly bigint[];
  over(): boolean;
}

/** All keys or none, for a moment. */
export type Reserve = (
  keys: readonly string[],
  label: string,
  io: Io,
) => Promise<Reservation | { readonly busy: readonly HolderInfo[] }>;

export interface ListedRow {
  readonly key: string;
  readonly row: TableRow;
  readonly beats: readonly Beat[];
}

export interface Table {
  /** Whether a text can be kept in a plain column exactly as it is. */
  plain(text: string): boolean;
  /** Rows and the server's time; with `beat` that waiter is seen now, in every one of the rows. */
  read(
    names: readonly RowName[],
    beat: { id: string; seq: number } | null,
    patience: Patience,
  ): Promise<Reading>;
  /** All of them or none; false when another was quicker. The pushes leave only with the change. */
  swap(changes: readonly Change[], pushes: readonly Push[], patience: Patience): Promise<boolean>;
  /** Makes empty rows where there are none. */
  seed(names: readonly RowName[], patience: Patience): Promise<void>;
  /** The fence, or null when it takes more than that. */
  grab(grab: Grab, patience: Patience): Promise<number | null>;
  drop(drop: Drop, patience: Patience): Promise<boolean>;
  /** Renews those that hold the short form of their row. A row that is locked keeps no other waiting. */
  extend(items: readonly Extension[], patience: Patience): Promise<readonly Extended[]>;
  /** Rows in use, by key, after a key; not more than a page. */
  list(
    prefix: string,
    after: string | null,
    patience: Patience,
  ): Promise<{ readonly nowUs: number; readonly rows: readonly ListedRow[] }>;
  /** Raises the floor to the largest fence of the rows that have been over for long; gives the floor. */
  raiseFloor(patience: Patience): Promise<number>;
  /** Deletes some rows that have been over for long and lie below the floor; true: there may be more. */
  clean(floor: number, patience: Patience): Promise<boolean>;
  /** Starts to listen for what is pushed to `proc`. Resolves when it can arrive, or cannot be had. */
  listen?(proc: string, hear: (words: string) => void): Promise<void>;
  check(patience: Patience): Promise<readonly Finding[]>;
  /** Locks in a transaction of the caller's; `name` gives the row of a key. */
  inTransaction?(tx: unknown, name: (key: string) => RowName, reserve: Reserve): TransactionDesk;
  /** What the database or its client threw, told to people. `doing` completes "could not". */
  say(error: unknown, doing: string, key: string | undefined): Error;
  /** Whether the server has said that nothing was done and the same step may be tried again (a deadlock's victim). */
  undone(error: unknown): boolean;
  /** Whether the server could not work on a value: of the statement, or of the row that the statement met. */
  isDataError(error: unknown): boolean;
  close(): Promise<void>;
}
