// Paths of nodes, and what the name of a node says. The names of a key's nodes are enough to know who holds
// and who waits; nobody has to read the nodes.
//
// ROOT/k<key>/                         container of a key: the server deletes it when it is empty
// ROOT/h<digest>/                      container of a key with a long name; its data is the key
//   x1.1.1.<session>.<id>.<number>     ephemeral queue node: mode and permits, limit, number of keys, owner
//   kx1.1.1.<session>.<id>             persistent: the key stays taken although its holder may be gone
// ROOT/m/<session>                     ephemeral: changes when an operator revokes a lock of that session

import { createHash } from "node:crypto";
import { UnsafeStoreError } from "../../core/errors.ts";
import type { Mode, Request } from "../../core/store.ts";

/** The parsed name of a node. */
export interface Entry {
  readonly name: string;
  readonly mode: Mode;
  readonly permits: number;
  readonly limit: number;
  /** How many keys its request is for. */
  readonly keys: number;
  /** In hex. */
  readonly session: string;
  readonly id: string;
  /** Sequence number of the server, which wraps around after 2^31; 0 for a kept node. */
  readonly seq: number;
  /** It outlives its holder (`keepMs`). */
  readonly isKept: boolean;
}

/**
 * Longer names are replaced by a digest. When a session ends, the server writes the paths of all its nodes
 * into one transaction, whose size is limited.
 */
const LONGEST_NAME = 128;

const NAME = /^(k?)([xs])(\d+)\.(\d+)\.(\d+)\.([0-9a-f]+)\.([0-9a-f]+)(?:\.(-?\d+))?$/;

export class Paths {
  readonly root: string;
  /** Parent of the revocation nodes. */
  readonly revocations: string;

  /** `chroot` is empty, or begins with a slash and does not end with one. */
  constructor(chroot: string, namespace: string) {
    this.root = `${chroot}/${nodeName(namespace)}`;
    this.revocations = `${this.root}/m`;
  }

  /** The container of a key. */
  key(key: string): string {
    return `${this.root}/${containerName(key)}`;
  }

  containerData(key: string): Buffer {
    return Buffer.from(isDigest(containerName(key)) ? key : "");
  }

  /** The node in which the process of a session learns of revocations. */
  revocation(session: string): string {
    return `${this.revocations}/${session}`;
  }

  /** `path` and all nodes above it, from the top. */
  parents(path: string): string[] {
    const parts = path.split("/").slice(1);
    return parts.map((_part, at) => `/${parts.slice(0, at + 1).join("/")}`);
  }
}

function containerName(key: string): string {
  const name = encodeURIComponent(key);
  if (name.length <= LONGEST_NAME) return `k${name}`;
  return `h${createHash("sha256").update(key).digest("base64url")}`;
}

/** Whether the name of a container is a digest, so that only its data has the key. */
export function isDigest(name: string): boolean {
  return name.startsWith("h");
}

/** The key of a container, or null if its name does not contain one. */
export function keyOf(name: string): string | null {
  if (!name.startsWith("k")) return null;
  try {
    return decodeURIComponent(name.slice(1));
  } catch {
    return null;
  }
}

/** Injective. A node cannot be called "." or "..", and "zookeeper" at the root belongs to the servers. */
export function nodeName(namespace: string): string {
  if (/^\.+$/.test(namespace)) return "%2E".repeat(namespace.length);
  if (namespace === "zookeeper") return "%7Aookeeper";
  return encodeURIComponent(namespace);
}

export function sessionName(session: bigint): string {
  return BigInt.asUintN(64, session).toString(16);
}

/** The name of a queue node, to which the server appends its number. */
export function queueNodeName(request: Request, session: string): string {
  const { mode, permits, limit, keys, id } = request;
  return `${mode === "shared" ? "s" : "x"}${permits}.${limit}.${keys.length}.${session}.${id}.`;
}

export function keptName(request: Request, session: string): string {
  return `k${queueNodeName(request, session).slice(0, -1)}`;
}

/** The kept node that a queue node has if its request has `keepMs`. */
export function keptNameOf({ name }: Entry): string {
  return `k${name.slice(0, name.lastIndexOf("."))}`;
}

/** @throws UnsafeStoreError if holdfast did not write it. */
export function readName(name: string, key: string): Entry {
  const [, kept, mode, permits, limit, keys, session, id, seq] = NAME.exec(name) ?? [];
  if (id === undefined || session === undefined || (kept === "") !== (seq !== undefined)) {
    throw new UnsafeStoreError(
      `ZooKeeper has a node among those of a lock that holdfast did not write: ${JSON.stringify(name)}`,
      {
        setting: "namespace",
        fix: "give holdfast a namespace or chroot of its own, or use one version of it for all processes",
        key,
      },
    );
  }
  return {
    name,
    mode: mode === "s" ? "shared" : "exclusive",
    permits: Number(permits),
    limit: Number(limit),
    keys: Number(keys),
    session,
    id,
    seq: Number(seq ?? 0),
    isKept: kept === "k",
  };
}
