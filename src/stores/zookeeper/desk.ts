// What all parts of one opened store share: the session, the tree, who asks and who has ended, and the few steps that all need.

import type { Io, Request } from "../../core/store.ts";
import type { System } from "../../core/system.ts";
import { EndedIds } from "../shared/ended-ids.ts";
import { type Claim, Claims } from "./claims.ts";
import { sessionFullError } from "./errors.ts";
import { type Paths, placeName, sessionName } from "./names.ts";
import type { Link, ZooKeeperPort } from "./port.ts";
import { Code, isCode, ServerError } from "./wire/errors.ts";
import { splitByBytes, STRING_HEAD } from "./wire/frames.ts";
import {
  type Acl,
  check,
  create,
  Flags,
  getChildren,
  multi,
  type MultiResult,
  remove,
  sync,
} from "./wire/ops.ts";

/**
 * The paths of all nodes of a session, at most. A server writes them into one transaction when the session
 * ends, and cannot read its own log again if that is longer than it allows (jute.maxbuffer, by default
 * 1,048,575 bytes).
 */
const SESSION_BYTES = 900_000;
/** Bytes of paths in one transaction that changes nothing. */
const BARRIER_BYTES = 256 * 1_024;

/** A server's answer to "do this" in a failed multi: not this one, another one failed. */
const NOT_THIS_ONE = -2;
const NOTHING = Buffer.alloc(0);
/** What the server adds to the name of a sequential node. */
const SEQUENCE_DIGITS = 10;

export class Desk {
  readonly port: ZooKeeperPort;
  readonly paths: Paths;
  readonly acl: readonly Acl[];
  readonly system: System;
  readonly claims: Claims;
  readonly #ended = new EndedIds();

  constructor(port: ZooKeeperPort, paths: Paths, acl: readonly Acl[], system: System) {
    this.port = port;
    this.paths = paths;
    this.acl = acl;
    this.system = system;
    this.claims = new Claims((path) => port.unwatch("child", path));
  }

  link(io: Pick<Io, "signal">): Link | Promise<Link> {
    return this.port.link ?? this.port.ready(io.signal);
  }

  /** From now on an attempt with this id changes nothing (P8). Before anything is sent: what leaves later must know. */
  end(id: string): void {
    this.#ended.add(id, this.system.monoMs());
  }

  /** A claim for a new place in the queues of the keys. Throws while the session has no room for it. */
  begin(link: Link, request: Request): Claim {
    const session = link.sessionId;
    const name = placeName(request, sessionName(session)).length + SEQUENCE_DIGITS;
    const pathBytes = request.keys.reduce(
      (sum, key) => sum + Buffer.byteLength(this.paths.key(key)) + 1 + name + STRING_HEAD,
      0,
    );
    const { nodes, bytes } = this.claims.sizeOf(session);
    if (bytes + pathBytes > SESSION_BYTES && nodes > 0)
      throw sessionFullError(request.keys[0], nodes, bytes + pathBytes, SESSION_BYTES);
    return this.claims.begin(request.id, session, { nodes: request.keys.length, bytes: pathBytes });
  }

  hasEnded(id: string): boolean {
    return this.#ended.has(id);
  }

  /**
   * The session was alive at the leader, and what is read on this link afterwards is not older than now. In one case it can be
   * older by a moment: who is connected to the leader itself does not wait for what others have asked it.
   */
  sync(link: Link): Promise<true> {
    return quietly(link.send(sync(this.paths.root)).then(() => true as const));
  }

  /**
   * A write that changes nothing: what is read behind it is never older than now, at the leader neither. False when the leader does not
   * have one of these nodes: then a server that still shows all of them behind it has lost something.
   */
  barrier(link: Link, paths: readonly string[]): Promise<boolean> {
    const groups = splitByBytes(paths, BARRIER_BYTES);
    const asked = Promise.all(groups.map((some) => link.send(multi(some.map((path) => check(path))))));
    const missing = (result: MultiResult): boolean => "error" in result && result.error === Code.noNode;
    return quietly(asked.then((results) => !results.flat().some(missing)));
  }

  /** The names below the containers of keys; a key without one has none. */
  lists(link: Link, keys: readonly string[]): Promise<string[][]> {
    return Promise.all(keys.map((key) => orElse(link.send(getChildren(this.paths.key(key))), [])));
  }

  /** The container of a key, with everything above it. */
  ensureKey(link: Link, key: string): Promise<void> {
    return this.ensure(link, this.paths.key(key), this.paths.containerData(key));
  }

  /** Makes what must be there before a node below `path` can be made. `data`: of the node at `path`. */
  async ensure(link: Link, path: string, data: Buffer = NOTHING): Promise<void> {
    const made = this.paths.parents(path).map((parent) =>
      link
        .send(
          create({
            path: parent,
            data: parent === path ? data : NOTHING,
            acl: this.acl,
            flags: Flags.container,
          }),
        )
        .catch((error: unknown) => {
          // One above the chroot may not be ours to make; if it is missing the next one says so.
          if (!isCode(error, Code.nodeExists, Code.noAuth)) throw error;
        }),
    );
    await Promise.all(made);
  }

  /** Deletes the places of a claim until they are gone. False when one of them was gone before. */
  async leave(link: Link, claim: Claim): Promise<boolean> {
    const gone = await Promise.all(
      claim.places.map(({ path }) =>
        orElse(
          link.send(remove(path)).then(() => true),
          false,
        ),
      ),
    );
    this.claims.forget(claim);
    return gone.every((was) => was);
  }
}

/** For what is awaited later: its failure is met there, or was overtaken by another one. */
export function quietly<T>(asked: Promise<T>): Promise<T> {
  asked.catch(() => {});
  return asked;
}

/** `none` where the node is not there. */
export async function orElse<T, N>(asked: Promise<T>, none: N): Promise<T | N> {
  try {
    return await asked;
  } catch (error) {
    if (isCode(error, Code.noNode)) return none;
    throw error;
  }
}

/** The values of a multi, or its error. */
export function valuesOf(results: readonly MultiResult[]): unknown[] {
  for (const result of results) {
    if ("error" in result && result.error !== 0 && result.error !== NOT_THIS_ONE)
      throw new ServerError(result.error);
  }
  return results.map((result) => ("value" in result ? result.value : null));
}
