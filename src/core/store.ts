// The contract between core and a store. Types only.
//
// A store makes single attempts. Core does everything that takes time: waiting, renewing, retrying. A
// store therefore sets no timer, and throws if it does not know an outcome. It may reconnect within the
// timeout of a call, but never repeats a call that the server may have executed. It throws an error that
// is marked as `disconnected` instead, and core repeats the call if that is harmless. An error that is
// marked as `unsent` says that the server certainly did not execute the call, so that core need not undo
// it.

import type { System } from "./system.ts";

/** `"shared"` is a read lock, `"exclusive"` every other lock. */
export type Mode = "exclusive" | "shared";

/**
 * A kind of lock that a store supports. `multi` is several keys in one atomic step. `keep` is a record that
 * outlives its holder, for `once`.
 */
export type Kind = "exclusive" | "shared" | "semaphore" | "multi" | "keep";

/** What a store promises, as data. Core, the conformance suite and the documentation read it. */
export interface Guarantees {
  /**
   * When a later grant has a larger fence. G3: always. G2: while a majority of nodes keeps its data. G1:
   * unless the server loses acknowledged writes and its clock runs back.
   */
  readonly fence: "G1" | "G2" | "G3";
  /** What ends the grant of a dead holder: the end of its lease, or of its session on the server. */
  readonly ends: "lease" | "session";
  /** How long after the death of its holder a key is free again. `"lease"` is ttl + grace. */
  readonly freeAfterCrashMs: number | "lease";
  /** How much later that may be on a server that counts time in coarse steps. Absent means 0. */
  readonly freeLateMs?: number;
  /** Whether waiters get a key in the order of their calls. */
  readonly order: "fifo" | "none";
  /**
   * How a waiter learns of a free key: by a notification, by a call that blocks in the server, or by
   * polling.
   */
  readonly wakes: "push" | "block" | "poll";
  /** The longest time for which a live waiter misses a free key if every notification is lost (P11). */
  readonly pollMs: number;
  /** How long a chosen waiter may take to answer before the store chooses the next one (P12). */
  readonly claimMs: number;
  /**
   * The longest validity of a grant or a renewal, such as the timeout of a session. Core renews a longer ttl
   * within it. Absent if only the ttl limits the validity.
   */
  readonly longestMs?: number;
  /**
   * The clock of the leases. With `"machine"`, the store uses the monotonic clock of this machine, so
   * core ignores the wall clock and the boot clock.
   */
  readonly clock: "store" | "machine";
  /** Which processes can share a lock. */
  readonly scope: "process" | "machine" | "network";
  /** The kinds of locks that the store supports. */
  readonly kinds: readonly Kind[];
  /** The faults under which exclusion (P1) holds without a check of the fence. */
  readonly survives: readonly string[];
  /** The conditions for these guarantees, as text. */
  readonly needs: readonly string[];
}

/** What core passes to `Store.open`. */
export interface StoreEnv {
  readonly namespace: string;
  readonly system: System;
  /** Names of unsafe settings that the caller accepts. */
  readonly allow: readonly string[];
}

/** A store that can be opened: what a factory such as `redis()` returns and `createLocks` accepts. */
export interface Store {
  readonly name: string;
  readonly guarantees: Guarantees;
  /**
   * Loads the modules that `open` needs, such as a client. Core calls it before the deadline of the opening
   * starts, because a busy machine takes seconds for it. Core ignores an error here; `open` throws it again.
   */
  load?(): Promise<unknown>;
  open(env: StoreEnv): Promise<OpenStore>;
}

/** A request for one or several keys. Each attempt of the request has the same id and the next `seq`. */
export interface Request {
  /** Without duplicates and in canonical order. More than one only if `kinds` contains `multi`. */
  readonly keys: readonly string[];
  /** 128 random bits in hex. The id proves ownership, so it never appears in logs, errors or events. */
  readonly id: string;
  readonly seq: number;
  readonly mode: Mode;
  readonly permits: number;
  /** The size of the semaphore. 1 is a lock. */
  readonly limit: number;
  readonly ttlMs: number;
  /** How much longer than `ttlMs` the store keeps the key. */
  readonly graceMs: number;
  /**
   * How many fences to reserve after the granted one: one per microsecond of the hand-off time. Core
   * numbers hand-offs with them. A store reserves no more than that, so that its fences do not run ahead
   * of its clock. 0 for shared locks and semaphores.
   */
  readonly reservedFences: number;
  /**
   * How long the key stays taken after the grant, even if its holder releases it or dies. 0 for most
   * locks.
   */
  readonly keepMs: number;
  readonly label: string;
  readonly actor: string;
  /** false: the request never joins the queue, and a repeated attempt after a `busy` answer has no effect. */
  readonly queue: boolean;
}

/** The timeout and the signal of one call. */
export interface Io {
  /** The time limit of the call. Core ignores a later result. */
  readonly timeoutMs: number;
  /** Aborts when core stops waiting for the call. */
  readonly signal: AbortSignal;
  /** Sleeps, for a store that polls within one call. With 0 it only lets other work of the event loop run. */
  sleep(ms: number): Promise<void>;
}

/** The answer to an attempt that got the keys. */
export interface Grant<Cookie = unknown> {
  /** One fence per key, in the order of `request.keys`. */
  readonly fences: readonly bigint[];
  /**
   * How many fences after each granted one are reserved for hand-offs. Core uses one of them at once, and
   * at most one more per microsecond since the grant. 0 for shared locks and semaphores.
   */
  readonly reservedFences: number;
  /** How long the grant is valid, counted from the send of the attempt. */
  readonly validMs: number;
  /** Data of the store, which core passes to later calls for this grant. */
  readonly cookie: Cookie;
}

/** What one node of a store with several nodes reports about a key. */
export interface NodeReason {
  /** The address of the node, without a password. */
  readonly node: string;
  readonly reason: string;
}

/** A node of the store that does not vote, and when it will. */
export interface AbsenceNotice {
  readonly node: string;
  /** What happened to the node. */
  readonly what: string;
  readonly votesInMs: number;
}

/** A jump of a server's clock, measured against this machine's clock. Forward is positive. */
export interface ClockJump {
  readonly node: string;
  readonly jumpMs: number;
}

/** A notice of a store about one of its nodes. */
export type StoreNotice = AbsenceNotice | ClockJump;

/** The answer to an attempt whose keys are taken. */
export interface Busy {
  /**
   * The time until the next attempt. For a waiter it is also the interval of its heartbeats: `pollMs` at
   * the head of the queue, more behind it, at most 10 s (P11, P21).
   */
  readonly againMs: number;
  /** How many requests are before this one in the queue, if the store knows. */
  readonly position?: number;
  /** The first holders, at most three. */
  readonly holders?: readonly HolderInfo[];
  /** The number of holders, if the store knows. */
  readonly holderCount?: number;
  /** The reason of each node, if the store has several. */
  readonly nodes?: readonly NodeReason[];
}

/** The answer to one attempt. */
export type AttemptAnswer<Cookie = unknown> =
  | { readonly granted: Grant<Cookie> }
  | { readonly busy: Busy }
  /**
   * Granted, but not safely, for example because too few replicas acknowledged it. Core releases it and
   * retries.
   */
  | { readonly unconfirmed: { readonly why: string } }
  /** The id was released or abandoned before. The attempt changed nothing. */
  | { readonly ended: true };

/** One lease to renew. */
export interface RenewItem<Cookie = unknown> {
  readonly request: Request;
  readonly cookie: Cookie;
  readonly ttlMs: number;
  /** The last used fence of each key, after hand-offs. The store writes it into the record. */
  readonly lastFences: readonly bigint[];
  readonly label: string;
}

/** The time that the clock of a server has shown. */
export interface ServerTime {
  /** The address of the server. Core compares the times of each server separately. */
  readonly node: string;
  /** The server's wall clock, in ms. */
  readonly serverMs: number;
}

/** `clocks`: the times of the servers during this renewal, if the store knows them. */
export type RenewAnswer = { readonly clocks?: readonly ServerTime[] } &
  /** Renewed for `validMs`, counted from the send of the renewal. */
  (
    | { readonly state: "renewed"; readonly validMs: number }
    /** The holder still owns the keys, but the end of the lease has not moved. */
    | { readonly state: "held" }
    | { readonly state: "lost"; readonly reason: LossReason; readonly detail?: string }
    | { readonly state: "unknown"; readonly cause?: unknown }
  );

/**
 * Why a lease was lost: its window ended (`expired`), the store does not know the holder (`gone`), an
 * operator revoked it (`revoked`), it reached `maxHold` (`max-hold`), the store ended the session of this
 * process (`session`), or `close()` ended it (`closed`).
 */
export type LossReason = "expired" | "gone" | "revoked" | "max-hold" | "session" | "closed";

/** Options of `OpenStore.release`. */
export interface ReleaseOptions {
  /** The last used fence of each key. The store may grant the reserved fences above it again. */
  readonly lastFences: readonly bigint[];
}

/** A holder of a key, in `inspect` and `list`. */
export interface HolderInfo {
  readonly label: string;
  readonly mode: Mode;
  readonly permits: number;
  readonly fence: bigint;
  readonly remainingMs: number;
  readonly heldMs: number;
  /** The key that this holder itself waits for. */
  readonly waitingFor?: string;
  /** The reason of the revocation, if an operator has revoked the lease. */
  readonly revoked?: string;
  /** true: there is no live holder, and only `atLeast` keeps the key taken. */
  readonly kept?: boolean;
}

/** A waiter of a key, in `inspect` and `list`. */
export interface WaiterInfo {
  readonly label: string;
  readonly mode: Mode;
  readonly permits: number;
  readonly waitedMs: number;
}

/** A key that is held or waited for. */
export interface LockInfo {
  readonly key: string;
  /** The largest limit that a current caller names. 1 is a plain lock. */
  readonly limit: number;
  readonly holders: readonly HolderInfo[];
  /** null if the store cannot know the waiters. */
  readonly waiters: readonly WaiterInfo[] | null;
  /** What each node reports about the key, if the store has several. */
  readonly nodes?: readonly NodeReason[];
}

/** Options of `OpenStore.revoke`. */
export interface RevokeOptions {
  /** Revoke only the holder with this fence, also after a hand-off within its process. */
  readonly fence?: bigint;
  readonly reason: string;
  readonly force: boolean;
}

/** The answer to a revocation. `other-fence`: another holder has the key. */
export type RevokeAnswer = "revoked" | "free" | "other-fence";

/** A finding of `check` about the safety of the store. */
export interface Finding {
  /** The name that `allow` accepts, or another short stable name. */
  readonly id: string;
  readonly level: "info" | "warning" | "danger";
  /** What was found. */
  readonly what: string;
  /** Why it is a problem. */
  readonly why: string;
  /** How to fix it. */
  readonly fix: string;
}

/**
 * What a holder waits for, or null to clear it. Core writes it into the record of the holder. A store
 * returns the text unchanged. It has at most 4,096 bytes.
 */
export type Note = { readonly waitingFor: string } | null;

/** Locks inside the caller's transaction. Its commit or rollback releases them. */
export interface TransactionDesk {
  /** Takes all keys or none, without waiting. If it takes none, the transaction is unchanged. */
  attempt(
    spec: { readonly keys: readonly string[]; readonly mode: Mode; readonly label: string },
    io: Io,
  ): Promise<{ readonly granted: readonly bigint[] } | { readonly busy: readonly HolderInfo[] }>;
}

/**
 * The open transaction of a library, such as an ORM or a query builder. Implement it to support another library.
 *
 * @example
 * const port = { adapts: tx, query: (text, values) => tx.raw(text, values) };
 * await locks.inTransaction(port).acquire("order:42");
 */
export interface TransactionPort {
  /** The transaction object of the library. It must be the same object in each call for one transaction. */
  readonly adapts: object;
  /**
   * Runs one statement in the transaction and resolves with its rows. PostgreSQL has the placeholders `$1`,
   * `$2`; MySQL has `?`. Values are strings, numbers, null and Buffers. Rejects with the error of the
   * driver, `pg` or `mysql2`.
   */
  query(text: string, values: readonly unknown[]): Promise<readonly Readonly<Record<string, unknown>>[]>;
}

/**
 * `attempt` and `release` with callbacks. Core uses them for plain locks of one key without a local
 * queue. Each calls `settle` once and never synchronously. Core measures the timeout (`callTimeoutMs` of
 * the ttl) and ignores a later result. An error has the same meaning as a rejection of the promise.
 */
export interface DirectCalls<Cookie = unknown> {
  attempt(request: Request, settle: (error: unknown, answer: AttemptAnswer<Cookie> | null) => void): void;
  release(
    request: Request,
    cookie: Cookie,
    lastFence: bigint,
    settle: (error: unknown, outcome: "released" | "not-held" | null) => void,
  ): void;
}

/**
 * An open store. Each method makes one attempt. A rejection means that the outcome is unknown, unless its
 * error says otherwise.
 */
export interface OpenStore<Cookie = unknown> {
  /** May promise less than those of the `Store`, once the server is known. */
  readonly guarantees: Guarantees;
  /** Idempotent per id: an id that holds gets its full ttl again, and an id that waits keeps its position. */
  attempt(request: Request, io: Io): Promise<AttemptAnswer<Cookie>>;
  /** A faster form for uncontended calls: without a promise, a signal and a timer per call. */
  readonly direct?: DirectCalls<Cookie>;
  /**
   * One answer per item, in order. A rejection means "unknown" for all of them. Never recreates a record
   * and never moves the end of a lease back.
   */
  renew(items: readonly RenewItem<Cookie>[], io: Io): Promise<readonly RenewAnswer[]>;
  /**
   * Releases only with the owner's id. The same step reserves the key for the first live waiter, for
   * `claimMs`, and notifies that waiter.
   */
  release(
    request: Request,
    cookie: Cookie,
    options: ReleaseOptions,
    io: Io,
  ): Promise<"released" | "not-held">;
  /**
   * Ends these requests, at most some hundreds: their grants, queue entries and watches. If a request had
   * just been chosen, the store chooses the next waiter. A late attempt with such an id changes nothing.
   * Resolves with the requests that could not be ended, for example because their record is damaged; core
   * tries those again. Rejects if no request is known to have ended.
   */
  abandon(requests: readonly Request[], io: Io): Promise<readonly Request[]>;
  /**
   * Frees what this process remembers of a request, without a call to the server: none of its attempts
   * was sent (`unsent`), or its lease ends by itself. Core does not use the id again. Absent if there is
   * nothing to free.
   */
  forget?(request: Request): void;
  /**
   * Ends a request of which core does not know whether an attempt was sent. Returns true if none was sent
   * and none will be, so that core need not abandon it on the server. Absent if the store does not know
   * either.
   */
  forgetUnsent?(request: Request): boolean;
  /**
   * Calls `wake` when the next attempt of the request may be granted. A notification may be spurious, late or
   * missed, and never grants the lock: only an attempt does.
   */
  subscribe?(request: Request, wake: () => void): Promise<() => void>;
  /** Calls `listener` for each loss that the store notices by itself. Returns a function that removes it. */
  onLoss?(listener: (id: string, reason: LossReason, detail?: string) => void): () => void;
  /**
   * Calls `listener` for nodes that do not vote and for clocks that jumped. Returns a function that
   * removes it.
   */
  onNotice?(listener: (notice: StoreNotice) => void): () => void;
  owns(request: Request, cookie: Cookie, io: Io): Promise<boolean>;
  note(request: Request, cookie: Cookie, note: Note, io: Io): Promise<void>;
  inspect(key: string, io: Io): Promise<LockInfo | null>;
  list(options: { readonly prefix: string; readonly limit: number }, io: Io): AsyncIterable<LockInfo>;
  revoke(key: string, options: RevokeOptions, io: Io): Promise<RevokeAnswer>;
  check(io: Io): Promise<readonly Finding[]>;
  /** `tx` is a connection of the database's client with an open transaction. Throws for anything else. */
  inTransaction?(tx: unknown): TransactionDesk;
  close(): Promise<void>;
}
