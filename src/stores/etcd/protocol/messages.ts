// The messages of etcd's API, with the fields that the store uses. Names are ours, numbers are etcd's
// (api/etcdserverpb/rpc.proto, mvccpb/kv.proto, version 3.4 and later). A test sends each to a real server.

import { big, type Codec, flag, int, list, type Loose, message, numbers, one, text } from "./protobuf.ts";

export interface Header {
  revision: number;
  /** Grows with every election that the answering member knows of. */
  term: bigint;
}
const header: Codec<Header> = message<Header>({ revision: int(3), term: big(4) });

export interface KeyValue {
  key: string;
  createRevision: number;
  modRevision: number;
  value: string;
  lease: number;
}
export const keyValue: Codec<KeyValue> = message<KeyValue>({
  key: text(1),
  createRevision: int(2),
  modRevision: int(3),
  value: text(5),
  lease: int(6),
});

/** For `order` and `by` of a range. */
export const ASCENDING = 1;
export const DESCENDING = 2;
export const BY_CREATION = 2;

export interface Range {
  key: string;
  end: string;
  limit: number;
  order: number;
  by: number;
  /** The member answers by itself, without asking the leader. */
  serializable: boolean;
  keysOnly: boolean;
  countOnly: boolean;
  maxCreateRevision: number;
}
export const range: Codec<Range> = message<Range>({
  key: text(1),
  end: text(2),
  limit: int(3),
  order: int(5),
  by: int(6),
  serializable: flag(7),
  keysOnly: flag(8),
  countOnly: flag(9),
  maxCreateRevision: int(13),
});

export interface RangeAnswer {
  header: Header | null;
  kvs: readonly KeyValue[];
  more: boolean;
  count: number;
}
export const rangeAnswer: Codec<RangeAnswer> = message<RangeAnswer>({
  header: one(1, () => header),
  kvs: list(2, () => keyValue),
  more: flag(3),
  count: int(4),
});

export interface Put {
  key: string;
  value: string;
  lease: number;
}
export const put: Codec<Put> = message<Put>({ key: text(1), value: text(2), lease: int(3) });

export interface Delete {
  key: string;
  end: string;
}
const deleteRange: Codec<Delete> = message<Delete>({ key: text(1), end: text(2) });

export interface DeleteAnswer {
  deleted: number;
}
const deleteAnswer: Codec<DeleteAnswer> = message<DeleteAnswer>({ deleted: int(2) });

/** For `result` and `target` of a comparison. */
export const EQUAL = 0;
export const LESS = 2;
export const CREATION = 1;
export const MODIFICATION = 2;

export interface Compare {
  result: number;
  target: number;
  key: string;
  createRevision: number;
  modRevision: number;
  /** The comparison must hold for every key of the range. An empty range has revision 0. */
  end: string;
}
const comparison: Codec<Compare> = message<Compare>({
  result: int(1),
  target: int(2),
  key: text(3),
  createRevision: int(5),
  modRevision: int(6),
  end: text(64),
});

export interface Op {
  range: Range | null;
  put: Put | null;
  delete: Delete | null;
  txn: Txn | null;
}
const op: Codec<Op> = message<Op>({
  range: one(1, () => range),
  put: one(2, () => put),
  delete: one(3, () => deleteRange),
  txn: one(4, () => txn),
});

export interface Txn {
  compare: readonly Compare[];
  success: readonly Op[];
  failure: readonly Op[];
}
export const txn: Codec<Txn> = message<Txn>({
  compare: list(1, () => comparison),
  success: list(2, () => op),
  failure: list(3, () => op),
});

export interface OpAnswer {
  range: RangeAnswer | null;
  delete: DeleteAnswer | null;
  txn: TxnAnswer | null;
}
const opAnswer: Codec<OpAnswer> = message<OpAnswer>({
  range: one(1, () => rangeAnswer),
  delete: one(3, () => deleteAnswer),
  txn: one(4, () => txnAnswer),
});

export interface TxnAnswer {
  header: Header | null;
  succeeded: boolean;
  answers: readonly OpAnswer[];
}
export const txnAnswer: Codec<TxnAnswer> = message<TxnAnswer>({
  header: one(1, () => header),
  succeeded: flag(2),
  answers: list(3, () => opAnswer),
});

/** For `filters` of a watch: no events for writes. */
export const NO_PUT = 0;
export const DELETED = 1;

export interface WatchCreate {
  key: string;
  end: string;
  startRevision: number;
  filters: readonly number[];
  id: number;
}
export interface WatchRequest {
  create: WatchCreate | null;
  cancel: { id: number } | null;
}
const watchCreate: Codec<WatchCreate> = message<WatchCreate>({
  key: text(1),
  end: text(2),
  startRevision: int(3),
  filters: numbers(5),
  id: int(7),
});
const watchCancel: Codec<{ id: number }> = message<{ id: number }>({ id: int(1) });
export const watchRequest: Codec<WatchRequest> = message<WatchRequest>({
  create: one(1, () => watchCreate),
  cancel: one(2, () => watchCancel),
});

export interface WatchEvent {
  type: number;
  kv: KeyValue | null;
}
export interface WatchAnswer {
  header: Header | null;
  id: number;
  created: boolean;
  canceled: boolean;
  compactRevision: number;
  reason: string;
  events: readonly WatchEvent[];
}
const watchEvent: Codec<WatchEvent> = message<WatchEvent>({ type: int(1), kv: one(2, () => keyValue) });
export const watchAnswer: Codec<WatchAnswer> = message<WatchAnswer>({
  header: one(1, () => header),
  id: int(2),
  created: flag(3),
  canceled: flag(4),
  compactRevision: int(5),
  reason: text(6),
  events: list(11, () => watchEvent),
});

export interface LeaseGrant {
  ttl: number;
  id: number;
}
export const leaseGrant: Codec<LeaseGrant> = message<LeaseGrant>({ ttl: int(1), id: int(2) });

/** The answer to a grant and to a keep-alive. A ttl of 0 means that there is no such lease. */
export interface LeaseAnswer {
  id: number;
  ttl: number;
  error: string;
}
export const leaseAnswer: Codec<LeaseAnswer> = message<LeaseAnswer>({
  id: int(2),
  ttl: int(3),
  error: text(4),
});

export interface LeaseId {
  id: number;
}
export const leaseId: Codec<LeaseId> = message<LeaseId>({ id: int(1) });

/** The remaining time of a lease, in whole seconds. */
export interface LeaseLife {
  ttl: bigint;
  granted: number;
}
export const leaseLife: Codec<LeaseLife> = message<LeaseLife>({ ttl: big(3), granted: int(4) });

export interface Status {
  version: string;
  dbSize: number;
  /** Since 3.6; 0 before. */
  quota: number;
}
export const status: Codec<Status> = message<Status>({
  version: text(2),
  dbSize: int(3),
  quota: int(12),
});

export const NOSPACE = 1;
export const CORRUPT = 2;

export interface Alarms {
  alarms: readonly { alarm: number }[];
}
const alarm: Codec<{ alarm: number }> = message<{ alarm: number }>({ alarm: int(2) });
export const alarms: Codec<Alarms> = message<Alarms>({ alarms: list(2, () => alarm) });

export interface Members {
  members: readonly { name: string }[];
}
const member: Codec<{ name: string }> = message<{ name: string }>({ name: text(2) });
export const members: Codec<Members> = message<Members>({ members: list(2, () => member) });

export interface Credentials {
  name: string;
  password: string;
}
export const credentials: Codec<Credentials> = message<Credentials>({ name: text(1), password: text(2) });

export interface Token {
  token: string;
}
export const token: Codec<Token> = message<Token>({ token: text(2) });

export type LooseTxn = Loose<Txn>;
export type LooseOp = Loose<Op>;
export type LooseCompare = Loose<Compare>;

/** The empty message. */
export const nothing: Codec<Record<never, never>> = message<Record<never, never>>({});
