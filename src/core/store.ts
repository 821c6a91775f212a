// THE contract between core and a store. Types only.
// A store makes single attempts and tells the truth; core owns everything that has to do with time. A store
// therefore never sets a timer and never guesses: what it does not know it throws. It may reconnect within the
// timeout of a call. It repeats nothing that may have been executed: it throws an error that says so
// (`disconnected`), and core repeats the call where that is harmless. An error of an attempt that was
// certainly not carried out says that too (`unsent`), so that core does not have to undo it.

import type { System } from "./system.ts";

export type Mode = "exclusive" | "shared";

/** What a store can hold: plain locks, read locks, semaphores, several keys in one atomic step, records that outlive their holder. */
export type Kind = "exclusive" | "shared" | "semaphore" | "multi" | "keep";

/** What a store promises, as data. Core switches on it, the conformance suite selects by it, the documentation prints it. */
export interface Guarantees {
  /** G3: strict under any fault. G2: strict while a majority keeps its counters. G1: strict unless acknowledged writes are lost and clocks run back. */
  readonly fence: "G1" | "G2" | "G3";
  /** What ends the grant of a holder that vanished. */
  readonly ends: "lease" | "session";
  /** How soon the key of a killed holder is free again; "lease" is ttl + grace. */
  readonly freeAfterCrashMs: number | "lease";
  /** How much later than that at most, where a server counts in coarse steps; default 0. */
  readonly freeLateMs?: number;
  readonly order: "fifo" | "none";
  readonly wakes: "push" | "block" | "poll";
  /** Longest time a free key may stay unnoticed by a live waiter when every push was lost (P11). */
  readonly pollMs: number;
  /** How long a waiter that was chosen may take to answer before the next one is chosen (P12). */
  readonly claimMs: number;
  /**
   * No grant and no renewal is valid for longer than this, whatever the ttl: the window of a session. A longer ttl is
   * kept by renewing within it. Without it the ttl alone decides.
   */
  readonly longestMs?: number;
  /** "machine": the store's clock is this machine's monotonic clock, so wall and boot clocks need not be consulted. */
  readonly clock: "store" | "machine";
  readonly scope: "process" | "machine" | "network";
  readonly kinds: readonly Kind[];
  /** Faults under which P1 holds without the help of the fence. */
  readonly survives: readonly string[];
  /** What must be true of the surroundings for all of this to hold, in words. */
  readonly needs: readonly string[];
}

/** What core gives to a store that it opens. */
export interface StoreEnv {
  readonly namespace: string;
  readonly system: System;
  /** Names of unsafe settings that the caller accepts. */
  readonly allow: readonly string[];
}

/** What a store's factory returns and `createLocks` takes: a description that can be opened. Opening may load a client. */
export interface Store {
  readonly name: string;
  readonly guarantees: Guarantees;
  /**
   * Reads what opening needs from the disk: a client, the rest of the store. Called before the deadline of the opening begins, because a
   * busy machine takes seconds for it. What fails here fails again, with its reason, in `open`.
   */
  load?(): Promise<unknown>;
  open(env: StoreEnv): Promise<OpenStore>;
}

/** One attempt to get one or several keys. The id is fresh for every turn and kept over repetitions; seq counts the sends. */
export interface Request {
  /** Distinct, in canonical order; more than one only where `kinds` has "multi". */
  readonly keys: readonly string[];
  /** 128 random bits in hex. Whoever knows it is the owner, so it never appears in logs, errors or events. */
  readonly id: string;
  readonly seq: number;
  readonly mode: Mode;
  readonly permits: number;
  /** 1 is a lock, more is a semaphore of so many permits. */
  readonly limit: number;
  readonly ttlMs: number;
  /** How much longer than ttlMs the store keeps the key. */
  readonly graceMs: number;
  /**
   * How many numbers behind each fence the holder can use for hand-offs: a microsecond of the hand-off time
   * each. A store reserves no more, so that its fences do not run ahead of its clock. 0 for shared locks and
   * semaphores.
   */
  readonly reservedFences: number;
  /** The key stays taken at least so long after the grant, whether its holder releases it or dies; 0 = no. */
  readonly keepMs: number;
  readonly label: string;
  readonly actor: string;
  /** false: no place in line, whatever the answer, and no effect if it arrives again after a "busy". */
  readonly queue: boolean;
}

/** The surroundings of one call. */
export interface Io {
  /** The call is worthless after this many ms; core stops listening then. */
  readonly timeoutMs: number;
  /** Aborts when core has stopped listening. */
  readonly signal: AbortSignal;
  /** Core's own patience, lent to a store that has to look again within one call; 0 only lets other work go first. */
  sleep(ms: number): Promise<void>;
}

export interface Grant<Cookie = unknown> {
  /** One per key, in the order of `request.keys`. */
  readonly fences: readonly bigint[];
  /**
   * How many numbers that follow each fence belong to this grant too, for hand-offs inside the process; core uses one
   * of them, and at most one more per microsecond since the grant. 0 for shared locks and semaphores.
   */
  readonly reservedFences: number;
  /** Validity, counted from the send of the attempt that this grant answers. */
  readonly validMs: number;
  readonly cookie: Cookie;
}

/** What one node of a store with several nodes reports about a key. */
export interface NodeReason {
  /** The address of the node, without a password. */
  readonly node: string;
  readonly reason: string;
}

/** A node of the store that does not take part, and when it will. */
export interface AbsenceNotice {
  readonly node: string;
  readonly what: string;
  readonly votesInMs: number;
}

/** A node of the store whose clock jumped against this machine's. Forward is positive. */
export interface ClockJump {
  readonly node: string;
  readonly jumpMs: number;
}

export type StoreNotice = AbsenceNotice | ClockJump;

export interface Busy {
  /**
   * Attempt again no later than this. For a waiter this is also its heartbeat: `pollMs` at the head of the
   * queue, more behind it, at most 10 s (P11, P21).
   */
  readonly againMs: number;
  /** How many wait before this request, where it waits and the store knows. */
  readonly position?: number;
  /** Those who hold the keys, at most the first three. */
  readonly holders?: readonly HolderInfo[];
  /** How many hold the keys, where the store knows. */
  readonly holderCount?: number;
  /** What each node said, where the store has several. */
  readonly nodes?: readonly NodeReason[];
}

export type AttemptAnswer<Cookie = unknown> =
  | { readonly granted: Grant<Cookie> }
  | { readonly busy: Busy }
  /** It was granted, but what makes it safe did not come about (too few replicas acknowledged it): core gives it back and tries again. */
  | { readonly unconfirmed: { readonly why: string } }
  /** The id was released or abandoned before: nothing was changed. */
  | { readonly ended: true };

export interface RenewItem<Cookie = unknown> {
  readonly request: Request;
  readonly cookie: Cookie;
  readonly ttlMs: number;
  /** Where local hand-offs have got to; the record is brought up to date with it. */
  readonly lastFences: readonly bigint[];
  readonly label: string;
}

/** What the clock of a server showed. */
export interface ServerTime {
  /** The server, for people: core keeps one clock for each. */
  readonly node: string;
  /** Its calendar, in ms. */
  readonly serverMs: number;
}

/** `clocks`: what the clocks of the servers showed during this renewal, where the store knows. */
export type RenewAnswer = { readonly clocks?: readonly ServerTime[] } &
  /** Valid for so long from the send of this renewal. */
  (
    | { readonly state: "renewed"; readonly validMs: number }
    /** Still ours, but the end has not moved. */
    | { readonly state: "held" }
    | { readonly state: "lost"; readonly reason: LossReason; readonly detail?: string }
    | { readonly state: "unknown"; readonly cause?: unknown }
  );

export type LossReason = "expired" | "gone" | "revoked" | "max-hold" | "session" | "closed";

export interface ReleaseOptions {
  /** The last fence that was used, per key: numbers above it may be given out again. */
  readonly lastFences: readonly bigint[];
}

export interface HolderInfo {
  readonly label: string;
  readonly mode: Mode;
  readonly permits: number;
  readonly fence: bigint;
  readonly remainingMs: number;
  readonly heldMs: number;
  /** The key that this holder itself is waiting for. */
  readonly waitingFor?: string;
  /** Set once an operator has revoked it. */
  readonly revoked?: string;
  /** Not a live holder: the key is kept closed by `keepMs`. */
  readonly kept?: boolean;
}

export interface WaiterInfo {
  readonly label: string;
  readonly mode: Mode;
  readonly permits: number;
  readonly waitedMs: number;
}

export interface LockInfo {
  readonly key: string;
  readonly limit: number;
  readonly holders: readonly HolderInfo[];
  /** null where the store cannot know them. */
  readonly waiters: readonly WaiterInfo[] | null;
  /** What each node says, where the store has several. */
  readonly nodes?: readonly NodeReason[];
}

export interface RevokeOptions {
  /** Only the holder with this fence (or one it was handed on to) is revoked. */
  readonly fence?: bigint;
  readonly reason: string;
  readonly force: boolean;
}

export type RevokeAnswer = "revoked" | "free" | "other-fence";

export interface Finding {
  /** The name by which `allow` accepts it, or a short stable name. */
  readonly id: string;
  readonly level: "info" | "warning" | "danger";
  readonly what: string;
  readonly why: string;
  readonly fix: string;
}

/** What the holder waits for, written into the held record of an actor that waits; null clears it. Text of at most 4,096 bytes that the store gives back as it is. */
export type Note = { readonly waitingFor: string } | null;

/** Locks inside a transaction of the caller's: taken there, and ended by its commit or rollback. */
export interface TransactionDesk {
  /** All keys or none, at once. What was not granted leaves the transaction as it was. */
  attempt(
    spec: { readonly keys: readonly string[]; readonly mode: Mode; readonly label: string },
    io: Io,
  ): Promise<{ readonly granted: readonly bigint[] } | { readonly busy: readonly HolderInfo[] }>;
}

/**
 * A transaction that a library (an ORM, a query builder) has open. An adapter for a library of your own
 * makes one of these.
 *
 * @example
 * const port = { adapts: tx, query: (text, values) => tx.raw(text, values) };
 * await locks.inTransaction(port).acquire("order:42");
 */
export interface TransactionPort {
  /** The transaction of the library. The same transaction is the same object each time. */
  readonly adapts: object;
  /**
   * Runs one statement in the transaction and resolves with its rows. PostgreSQL has the placeholders `$1`,
   * `$2`; MySQL has `?`. Values are strings, numbers, null and Buffers. Rejects with the error of the
   * driver, `pg` or `mysql2`.
   */
  query(text: string, values: readonly unknown[]): Promise<readonly Readonly<Record<string, unknown>>[]>;
}

/**
 * `attempt` and `release` as callbacks. Core uses them for one key, mode exclusive, limit 1 and keepMs 0,
 * while this process has no queue for the key. Each calls `settle` once, never synchronously. Core keeps the
 * deadline (`callTimeoutMs` of the ttl) and ignores what comes later. An error means what a throw of the
 * promise means.
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

/** A store that this process has open. Every method is one attempt; a throw means "unknown" unless it is an error that says otherwise. */
export interface OpenStore<Cookie = unknown> {
  /** May be narrower than the description's once the server is known. */
  readonly guarantees: Guarantees;
  /** Idempotent per id: an id that already holds is re-armed to its full ttl, one that waits keeps its place. */
  attempt(request: Request, io: Io): Promise<AttemptAnswer<Cookie>>;
  /** Callback forms for the uncontended path: no promise, no signal and no timer per call. */
  readonly direct?: DirectCalls<Cookie>;
  /** One answer per item, in order; a throw is "unknown" for all. Never recreates what is gone, never moves an end back. */
  renew(items: readonly RenewItem<Cookie>[], io: Io): Promise<readonly RenewAnswer[]>;
  /**
   * Only the owner's id releases. The same step reserves the key for the first live waiter, for `claimMs`,
   * and notifies that waiter.
   */
  release(
    request: Request,
    cookie: Cookie,
    options: ReleaseOptions,
    io: Io,
  ): Promise<"released" | "not-held">;
  /**
   * Forget these ids, at most some hundreds: grant, place in line, watch. Passes a key on if an id had just
   * been chosen. A late attempt with such an id changes nothing. Resolves with the requests that could not
   * be forgotten, such as those whose record is damaged, while all others are; core asks again for those.
   * Throws if none of them is known to be forgotten.
   */
  abandon(requests: readonly Request[], io: Io): Promise<readonly Request[]>;
  /**
   * Core will not ask with this id again, and the server is not told: nothing of it was sent (`unsent`), or
   * its lease ends by itself. Frees what this process remembers of it; absent where that is nothing.
   */
  forget?(request: Request): void;
  /**
   * Core has given up on this id and does not know whether anything of it was sent. True: nothing was, and
   * nothing will be, so that the server need not be told. Absent where the store does not know either.
   */
  forgetUnsent?(request: Request): boolean;
  /**
   * Notifies a waiter that its next attempt may be granted. A notification carries nothing: it may be
   * spurious, late or missed. Only an attempt grants.
   */
  subscribe?(request: Request, wake: () => void): Promise<() => void>;
  /** Tells core of losses that the store learns of by itself. */
  onLoss?(tell: (id: string, reason: LossReason, detail?: string) => void): () => void;
  /** Tells core of nodes that do not take part, and of clocks that jumped. */
  onNotice?(tell: (notice: StoreNotice) => void): () => void;
  owns(request: Request, cookie: Cookie, io: Io): Promise<boolean>;
  note(request: Request, cookie: Cookie, note: Note, io: Io): Promise<void>;
  inspect(key: string, io: Io): Promise<LockInfo | null>;
  list(options: { readonly prefix: string; readonly limit: number }, io: Io): AsyncIterable<LockInfo>;
  revoke(key: string, options: RevokeOptions, io: Io): Promise<RevokeAnswer>;
  check(io: Io): Promise<readonly Finding[]>;
  /** `tx` is whatever the database's client calls a connection that is inside a transaction; anything else is refused. */
  inTransaction?(tx: unknown): TransactionDesk;
  close(): Promise<void>;
}
