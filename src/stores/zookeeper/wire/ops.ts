// The requests that the store needs, one function each: type, encoding, and how the answer is decoded.
// Numbers and layouts are those of ZooKeeper 3.5 and later.

import { type JuteReader, type JuteWriter, ProtocolError } from "./jute.ts";

export interface Op<T> {
  readonly type: number;
  write(out: JuteWriter): void;
  read(from: JuteReader): T;
}

export interface Stat {
  /** The transaction that created the node. Grows over the whole ensemble. */
  readonly czxid: bigint;
  /** Wall clock of the leader, in ms. */
  readonly ctime: number;
  readonly mtime: number;
  readonly version: number;
  /** The session of an ephemeral node, else 0. */
  readonly ephemeralOwner: bigint;
  readonly numChildren: number;
}

export interface Acl {
  readonly perms: number;
  readonly scheme: string;
  readonly id: string;
}

export const OPEN_ACL: readonly Acl[] = [{ perms: 31, scheme: "world", id: "anyone" }];
/** All permissions for the credentials of this connection. */
export const OWN_ACL: readonly Acl[] = [{ perms: 31, scheme: "auth", id: "" }];

export const Flags = { persistent: 0, ephemeral: 1, ephemeralSequential: 3, container: 4 } as const;

export const Type = {
  create: 1,
  create2: 15,
  createContainer: 19,
  delete: 2,
  exists: 3,
  getData: 4,
  setData: 5,
  getChildren: 8,
  sync: 9,
  ping: 11,
  check: 13,
  multi: 14,
  auth: 100,
  setWatches: 101,
  close: -11,
  error: -1,
} as const;

export interface Created {
  readonly path: string;
  readonly stat: Stat;
}

export interface CreateSpec {
  readonly path: string;
  readonly data: Uint8Array;
  readonly acl: readonly Acl[];
  readonly flags: number;
}

export function create(spec: CreateSpec): Op<Created> {
  return {
    type: spec.flags === Flags.container ? Type.createContainer : Type.create2,
    write: (out) => writeCreate(out, spec),
    read: (from) => ({ path: from.string(), stat: readStat(from) }),
  };
}

/** For a multi: its answer contains the path only. */
export function createPath(spec: CreateSpec): Op<string> {
  return {
    type: Type.create,
    write: (out) => writeCreate(out, spec),
    read: (from) => from.string(),
  };
}

function writeCreate(out: JuteWriter, { path, data, acl, flags }: CreateSpec): void {
  out.string(path).buffer(data);
  out.list(acl, (entry) => out.int(entry.perms).string(entry.scheme).string(entry.id));
  out.int(flags);
}

export function remove(path: string, version = -1): Op<null> {
  return {
    type: Type.delete,
    write: (out) => void out.string(path).int(version),
    read: () => null,
  };
}

/** For a multi: fails it unless the node exists (and has this version). */
export function check(path: string, version = -1): Op<null> {
  return { type: Type.check, write: (out) => void out.string(path).int(version), read: () => null };
}

export function exists(path: string): Op<Stat> {
  return { type: Type.exists, write: (out) => void out.string(path).bool(false), read: readStat };
}

export interface Content {
  readonly data: Buffer;
  readonly stat: Stat;
}

export function getData(path: string, watch = false): Op<Content> {
  return {
    type: Type.getData,
    write: (out) => void out.string(path).bool(watch),
    read: (from) => ({ data: from.buffer() ?? Buffer.alloc(0), stat: readStat(from) }),
  };
}

export function setData(path: string, data: Uint8Array, version = -1): Op<Stat> {
  return {
    type: Type.setData,
    write: (out) => void out.string(path).buffer(data).int(version),
    read: readStat,
  };
}

/** A watch on a node without children, such as an ephemeral one, reports its deletion only. */
export function getChildren(path: string, watch = false): Op<string[]> {
  return {
    type: Type.getChildren,
    write: (out) => void out.string(path).bool(watch),
    read: (from) => from.list(() => from.string()),
  };
}

/** Reads after it on this connection are not older than the leader was when it received this. */
export function sync(path: string): Op<string> {
  return { type: Type.sync, write: (out) => void out.string(path), read: (from) => from.string() };
}

export const ping: Op<null> = { type: Type.ping, write: () => {}, read: () => null };
export const close: Op<null> = { type: Type.close, write: () => {}, read: () => null };

export function auth(scheme: string, credentials: Uint8Array): Op<null> {
  return {
    type: Type.auth,
    write: (out) => void out.int(0).string(scheme).buffer(credentials),
    read: () => null,
  };
}

export interface Watches {
  readonly data: readonly string[];
  readonly child: readonly string[];
}

/** Restores watches on a new connection. Changes since `zxid` are reported at once. */
export function setWatches(zxid: bigint, watches: Watches): Op<null> {
  return {
    type: Type.setWatches,
    write(out) {
      out.long(zxid);
      for (const paths of [watches.data, [], watches.child]) out.list(paths, (path) => out.string(path));
    },
    read: () => null,
  };
}

export type MultiResult = { readonly value: unknown } | { readonly error: number };

/** All or none, in one transaction. One result per op; if it failed, only the errors count. */
export function multi(ops: readonly Op<unknown>[]): Op<MultiResult[]> {
  return {
    type: Type.multi,
    write(out) {
      for (const op of ops) {
        out.int(op.type).bool(false).int(-1);
        op.write(out);
      }
      out.int(-1).bool(true).int(-1);
    },
    read: (from) => readMulti(from, ops),
  };
}

function readMulti(from: JuteReader, ops: readonly Op<unknown>[]): MultiResult[] {
  const results: MultiResult[] = [];
  for (;;) {
    const [type, done] = [from.int(), from.bool()];
    from.int();
    if (done) return results;
    const op = ops[results.length];
    if (op === undefined) throw new ProtocolError("more results than requests");
    if (type === Type.error) results.push({ error: from.int() });
    else if (type === op.type) results.push({ value: op.read(from) });
    else throw new ProtocolError(`a result of kind ${type} where ${op.type} was asked for`);
  }
}

function readStat(from: JuteReader): Stat {
  const czxid = from.long();
  from.long();
  const [ctime, mtime] = [Number(from.long()), Number(from.long())];
  const version = from.int();
  from.int();
  from.int();
  const ephemeralOwner = from.long();
  from.int();
  const numChildren = from.int();
  from.long();
  return { czxid, ctime, mtime, version, ephemeralOwner, numChildren };
}
