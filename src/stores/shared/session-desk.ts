// What session locks need of a database, as a port. A session is one connection; a lock that it takes lives and dies with it.
// A dialect implements this; session-store.ts is the contract over it.

import type {
  Finding,
  HolderInfo,
  LockInfo,
  Request,
  RevokeAnswer,
  RevokeOptions,
  TransactionDesk,
} from "../../core/store.ts";
import type { Patience } from "./table.ts";

/** One connection of its own. */
export interface LockSession {
  readonly dead: boolean;
  /** Called once, when the connection is gone by itself. */
  onEnd: (() => void) | null;
  /** Closes it at once, whatever it is doing. */
  kill(): void;
}

/** A request as the database needs it. */
export interface Claim {
  readonly request: Request;
  /** Numbers that belong to the grant, above its fence. */
  readonly room: number;
  /** For how long the server lets the session be idle: ttl + grace. */
  readonly lastsMs: number;
}

export type Own = "waits" | "holds" | null;

export interface SessionDesk<S extends LockSession> {
  /** A session that holds nothing. */
  open(patience: Patience): Promise<S>;
  /** It holds nothing any more and may be used again. */
  giveBack(session: S): void;
  /** Closes it, and resolves when the server has nothing of it any more, neither lock nor wait. */
  end(session: S, patience: Patience): Promise<void>;
  /** Tries once: takes the lock, draws the fence after that, writes down who holds it. null when it is not free. */
  take(session: S, claim: Claim, patience: Patience): Promise<bigint | null>;
  /** Waits in the server until the lock is held. Nothing else can be asked on the session meanwhile. */
  wait(session: S, claim: Claim): Promise<void>;
  /** The session has waited and has the lock: draws the fence, writes down who holds it. */
  draw(session: S, claim: Claim, patience: Patience): Promise<bigint>;
  /** The session is active, so that its idle time begins anew. `label` null: as it was. */
  touch(
    session: S,
    claim: Claim,
    told: { readonly used: bigint; readonly label: string | null },
    patience: Patience,
  ): Promise<"held" | "gone" | { readonly revoked: string }>;
  /** Lets go: writes down the last fence that was used, where somebody can say, and then frees the lock. Whether it was held. */
  drop(session: S, claim: Claim, used: bigint | null, patience: Patience): Promise<boolean>;
  /** Who holds a key, and what the server knows of a session that waits for it. Never asked on that session. */
  look(
    key: string,
    session: S | null,
    patience: Patience,
  ): Promise<{ readonly own: Own; readonly holders: readonly HolderInfo[] }>;
  note(id: string, waitingFor: string | null, patience: Patience): Promise<void>;
  list(prefix: string, patience: Patience): Promise<readonly LockInfo[]>;
  revoke(key: string, options: RevokeOptions, patience: Patience): Promise<RevokeAnswer>;
  /** Cleans up now and then; nobody waits for it. */
  clean(patience: Patience): void;
  check(patience: Patience): Promise<readonly Finding[]>;
  /** Locks in a transaction of the caller's. */
  inTransaction?(tx: unknown): TransactionDesk;
  /** What the database or its client threw, told to people. `doing` completes "could not". */
  say(error: unknown, doing: string, key: string | undefined): Error;
  close(): Promise<void>;
}
