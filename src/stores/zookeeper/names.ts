// Where things lie in the tree, and what the name of a node says. Whoever reads the names of a key's nodes knows who holds
// and who waits without reading a single one of them.
//
// ROOT/k<key>/                         container of a key: goes by itself when it has been empty for a while
// ROOT/h<digest>/                      container of a key with a long name; its data is the key
//   x1.1.1.<session>.<id>.<number>     ephemeral: a place in line: mode and permits, limit, how many keys, whose
//   kx1.1.1.<session>.<id>             persistent: the key is kept although its holder may be gone
// ROOT/m/<session>                     ephemeral: changes when an operator has revoked something of that session

import { createHash } from "node:crypto";
import { UnsafeStoreError } from "../../core/errors.ts";
import type { Mode, Request } from "../../core/store.ts";

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
  /** The server's number of the place, which runs over after 2^31; 0 for what is kept. */
  readonly seq: number;
  readonly kept: boolean;
}

/**
 * Longer names are replaced by a digest: the server writes the paths of all nodes of a session into one
 * transaction when the session ends, and that transaction has a largest size.
 */
const LONGEST_NAME = 128;

const NAME = /^(k?)([xs])(\d+)\.(\d+)\.(\d+)\.([0-9a-f]+)\.([0-9a-f]+)(?:\.(-?\d+))?$/;

export class Paths {
  readonly root: string;
  readonly mail: string;

  /** `chroot` is empty or begins with a slash and does not end with one. */
  constructor(chroot: string, namespace: string) {
    this.root = `${chroot}/${nodeName(namespace)}`;
    this.mail = `${this.root}/m`;
  }

  key(key: string): string {
    return `${this.root}/${containerName(key)}`;
  }

  /** The data of a key's container. */
  containerData(key: string): Buffer {
    return Buffer.from(containerName(key).startsWith("h") ? key : "");
  }

  mailbox(session: string): string {
    return `${this.mail}/${session}`;
  }

  /** The nodes that must be there before one below `path` can be made, the topmost first. */
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

/** Whether the name of a container is a digest, so that only its data tells the key. */
export function isDigest(name: string): boolean {
  return name.startsWith("h");
}

/** The key of a container's name, or null where the name does not tell one. */
export function keyOf(name: string): string | null {
  if (!name.startsWith("k")) return null;
  try {
    return decodeURIComponent(name.slice(1));
  } catch {
    return null;
  }
}

/** Injective. Dots alone are no name for a node, and the root's own "zookeeper" belongs to the servers. */
export function nodeName(namespace: string): string {
  if (/^\.+$/.test(namespace)) return "%2E".repeat(namespace.length);
  if (namespace === "zookeeper") return "%7Aookeeper";
  return encodeURIComponent(namespace);
}

export function sessionName(session: bigint): string {
  return BigInt.asUintN(64, session).toString(16);
}

/** The name of a place in line, to which the server adds its number. */
export function placeName(request: Request, session: string): string {
  return `${keptName(request, session).slice(1)}.`;
}

export function keptName(request: Request, session: string): string {
  const { mode, permits, limit, keys, id } = request;
  return `k${mode === "shared" ? "s" : "x"}${permits}.${limit}.${keys.length}.${session}.${id}`;
}

export function readName(name: string, key: string): Entry {
  const [, kept, mode, permits, limit, keys, session, id, seq] = NAME.exec(name) ?? [];
  if (id === undefined || session === undefined || (kept === "") !== (seq !== undefined)) {
    throw new UnsafeStoreError(
      `ZooKeeper holds something among the nodes of a lock that holdfast did not write: ${JSON.stringify(name)}`,
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
    kept: kept === "k",
  };
}
