// The slice of etcd that the store needs, as an interface of our own: one call, one answer. It never repeats a call that may
// have been carried out. A failed call makes it ask another member the next time.

import type {
  LooseTxn,
  LeaseLife,
  Range,
  RangeAnswer,
  TxnAnswer,
  WatchAnswer,
  WatchRequest,
} from "./messages.ts";
import type { Loose } from "./wire.ts";

/** Whatever aborts when the caller has stopped listening. */
export interface Patience {
  readonly signal: AbortSignal;
}

export interface ServerFacts {
  /** Null where this user may not ask, as on etcd 3.5.28 and later. */
  readonly version: string | null;
  readonly dbSize: number | null;
  /** What the database may grow to; 0 where the server does not tell. */
  readonly quota: number;
  /** Of all members together; null where this user may not ask. */
  readonly alarms: readonly number[] | null;
  readonly members: number | null;
  /** Endpoints that did not answer, or know no leader, with their words. */
  readonly silent: readonly string[];
}

/** One stream of watches. Its end is told once. */
export interface WatchStream {
  send(request: Loose<WatchRequest>): void;
  close(): void;
}

export interface EtcdPort {
  /** All reads are linearizable. */
  txn(txn: LooseTxn, io: Patience): Promise<TxnAnswer>;
  range(range: Loose<Range>, io: Patience): Promise<RangeAnswer>;
  /** Gives the seconds that the server will keep it for, which may be more than asked for. */
  grantLease(id: number, seconds: number, io: Patience): Promise<number>;
  /** Gives the seconds that are left from now; 0 when there is no such lease. */
  keepAlive(id: number, io: Patience): Promise<number>;
  revokeLease(id: number, io: Patience): Promise<void>;
  leaseLife(id: number, io: Patience): Promise<LeaseLife>;
  /** Of the member in use; null where this user may not ask. */
  version(io: Patience): Promise<string | null>;
  facts(io: Patience): Promise<ServerFacts>;
  watch(hear: (answer: WatchAnswer) => void, ended: () => void): WatchStream;
  /** Nothing is held and nobody waits: nothing of this need keep the process alive. */
  rest(): void;
  close(): void;
}
