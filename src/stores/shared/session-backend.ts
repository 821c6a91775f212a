// The operations on a database that a session store needs. A session is one connection, and the database
// releases its locks when the connection ends. session-store.ts implements the store contract with them.

import type {
  Finding,
  HolderInfo,
  LockInfo,
  Request,
  RevokeAnswer,
  RevokeOptions,
  TransactionDesk,
} from "../../core/store.ts";
import type { CallContext } from "./retry-while-unsent.ts";

/** A connection that serves one request at a time. */
export interface LockSession {
  readonly dead: boolean;
  /** Called once, if the connection ends without `kill`. */
  onEnd: (() => void) | null;
  /** Closes the connection immediately, also during a statement. */
  kill(): void;
}

/** The part of a request that the database needs. */
export interface Claim {
  readonly request: Request;
  /** How many fences above the granted one are reserved for hand-offs. */
  readonly room: number;
  /** The idle time after which the server ends the session: ttl + grace. */
  readonly lastsMs: number;
}

export type Own = "waits" | "holds" | null;

export interface SessionBackend<S extends LockSession> {
  /** Resolves with a session without locks. */
  open(call: CallContext): Promise<S>;
  /** Takes back a session that has no lock any more, for another request. */
  reuse(session: S): void;
  /** Closes a session. Resolves when the server has removed its lock and its wait. */
  end(session: S, call: CallContext): Promise<void>;
  /**
   * Tries once: takes the lock, then draws the fence and records the holder. null if the lock is not
   * free.
   */
  take(session: S, claim: Claim, call: CallContext): Promise<bigint | null>;
  /**
   * Waits in the server until the session has the lock. The session cannot run another statement
   * meanwhile.
   */
  wait(session: S, claim: Claim): Promise<void>;
  /** Draws the fence and records the holder, after `wait` has taken the lock. */
  drawFence(session: S, claim: Claim, call: CallContext): Promise<bigint>;
  /** Restarts the idle time of the session. `label` null leaves the label unchanged. */
  touch(
    session: S,
    claim: Claim,
    told: { readonly used: bigint; readonly label: string | null },
    call: CallContext,
  ): Promise<"held" | "gone" | { readonly revoked: string }>;
  /** Records the last used fence, unless it is unknown (null), and releases the lock. Whether it was held. */
  release(session: S, claim: Claim, used: bigint | null, call: CallContext): Promise<boolean>;
  /**
   * The holders of a key, and the state of a session that waits for it. Uses another session for the
   * query.
   */
  inspect(
    key: string,
    session: S | null,
    call: CallContext,
  ): Promise<{ readonly own: Own; readonly holders: readonly HolderInfo[] }>;
  note(id: string, waitingFor: string | null, call: CallContext): Promise<void>;
  list(prefix: string, call: CallContext): Promise<readonly LockInfo[]>;
  revoke(key: string, options: RevokeOptions, call: CallContext): Promise<RevokeAnswer>;
  /** Cleans up if it is time. Callers do not wait for it. */
  clean(call: CallContext): void;
  check(call: CallContext): Promise<readonly Finding[]>;
  /** Locks inside the caller's transaction. */
  inTransaction?(tx: unknown): TransactionDesk;
  /** The error of the database or its client as an error of ours. `doing` completes "could not". */
  toError(error: unknown, doing: string, key: string | undefined): Error;
  close(): Promise<void>;
}
