// The slice of a ZooKeeper client that the store needs, as an interface of our own; wire/session.ts implements it.

import type { ConnectionLost } from "./wire/errors.ts";
import type { Op } from "./wire/ops.ts";

/** One connection of one session. What is sent on it after its end is rejected, so nothing leaves late. */
export interface Link {
  readonly sessionId: bigint;
  readonly address: { readonly host: string; readonly port: number };
  /** Rejects with a ServerError where the server said no, with a ConnectionLost where nobody knows. */
  send<T>(op: Op<T>): Promise<T>;
  /** Ends this connection; the session goes on at the next server. */
  leave(why: ConnectionLost): void;
}

export interface ZooKeeperPort {
  /** The session's timeout as the server has it. */
  readonly timeoutMs: number;
  readonly link: Link | null;
  /** Waits for a connection as long as `signal` does; rejects with ConnectionLost. */
  ready(signal: AbortSignal): Promise<Link>;
  /** Keeps a watch over reconnections until it has fired. */
  watch(kind: "data" | "child", path: string): void;
  unwatch(kind: "data" | "child", path: string): void;
  close(): Promise<void>;
}

export type { ConnectionLost };
