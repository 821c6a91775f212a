// What all parts of one open store share: the session, the paths, the open and ended requests, and the few
// steps that several parts need.

import type { Io, Request } from "../../core/store.ts";
import type { System } from "../../core/system.ts";
import { EndedIds } from "../shared/ended-ids.ts";
import { sessionFullError } from "./errors.ts";
import { type Paths, queueNodeName, sessionName } from "./paths.ts";
import { type OpenRequest, OpenRequests } from "./requests.ts";
import type { Connection } from "./wire/connection.ts";
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
import type { Session } from "./wire/session.ts";

/**
 * The most bytes for the paths of all nodes of a session. A server writes them into one transaction when the
 * session ends, and cannot read its own log if that is longer than it allows (jute.maxbuffer, by default
 * 1,048,575 bytes).
 */
const SESSION_BYTES = 900_000;
/** Bytes of paths in one transaction that changes nothing. */
const BARRIER_BYTES = 256 * 1_024;
/** In the result of a failed multi: another operation failed, not this one. */
const OTHER_FAILED = -2;
const NO_DATA = Buffer.alloc(0);
/** What the server appends to the name of a sequential node. */
const SEQUENCE_DIGITS = 10;

export class StoreContext {
  readonly session: Session;
  readonly paths: Paths;
  readonly acl: readonly Acl[];
  readonly system: System;
  readonly requests: OpenRequests;
  /** The longest validity of a grant or renewal, which follows from the negotiated session timeout. */
  readonly longestMs: () => number;
  readonly #ended = new EndedIds();

  constructor(session: Session, paths: Paths, acl: readonly Acl[], system: System, longestMs: () => number) {
    this.session = session;
    this.paths = paths;
    this.acl = acl;
    this.system = system;
    this.longestMs = longestMs;
    this.requests = new OpenRequests((path) => session.unwatch("child", path));
  }

  connect(io: Pick<Io, "signal">): Connection | Promise<Connection> {
    return this.session.connection ?? this.session.ready(io.signal);
  }

  /** From now on an attempt with this id changes nothing (P8). Called before anything is sent. */
  end(id: string): void {
    this.#ended.add(id, this.system.monoMs());
  }

  hasEnded(id: string): boolean {
    return this.#ended.has(id);
  }

  /** Starts a request. Throws if the session has no room for its nodes. */
  begin({ sessionId }: Connection, request: Request): OpenRequest {
    const nameBytes = queueNodeName(request, sessionName(sessionId)).length + SEQUENCE_DIGITS;
    const size = request.keys.reduce(
      (sum, key) => sum + Buffer.byteLength(this.paths.key(key)) + 1 + nameBytes + STRING_HEAD,
      0,
    );
    const { nodes, bytes } = this.requests.sizeOf(sessionId);
    if (bytes + size > SESSION_BYTES && nodes > 0)
      throw sessionFullError(request.keys[0], nodes, bytes + size, SESSION_BYTES);
    return this.requests.begin(request.id, sessionId, { nodes: request.keys.length, bytes: size });
  }

  /**
   * Proves that the session was alive at the leader. Reads after it on this connection are not older than
   * now, with one exception: the leader answers syncs of its own clients without waiting for requests of
   * others.
   */
  sync(connection: Connection): Promise<true> {
    return handled(connection.send(sync(this.paths.root)).then(() => true as const));
  }

  /**
   * A write that changes nothing. Reads after it are never older than now, at the leader neither. False if
   * the leader lacks one of these nodes: a server that still shows all of them afterwards is stale.
   */
  barrier(connection: Connection, paths: readonly string[]): Promise<boolean> {
    const groups = splitByBytes(paths, BARRIER_BYTES);
    const sent = Promise.all(groups.map((some) => connection.send(multi(some.map((path) => check(path))))));
    const isMissing = (result: MultiResult): boolean => "error" in result && result.error === Code.noNode;
    return handled(sent.then((results) => !results.flat().some(isMissing)));
  }

  /** The node names of each key. A key without a container has none. */
  listNames(connection: Connection, keys: readonly string[]): Promise<string[][]> {
    return Promise.all(
      keys.map((key) => unlessMissing(connection.send(getChildren(this.paths.key(key))), [])),
    );
  }

  /** Creates the container of a key, and everything above it. */
  createContainer(connection: Connection, key: string): Promise<void> {
    return this.createParents(connection, this.paths.key(key), this.paths.containerData(key));
  }

  /** Creates `path` and everything above it. `data`: of the node at `path`. */
  async createParents(connection: Connection, path: string, data: Buffer = NO_DATA): Promise<void> {
    await Promise.all(
      this.paths.parents(path).map((parent) =>
        connection
          .send(
            create({
              path: parent,
              data: parent === path ? data : NO_DATA,
              acl: this.acl,
              flags: Flags.container,
            }),
          )
          .catch((error: unknown) => {
            // We may not create a node above the chroot. If it is missing, the next creation fails.
            if (!isCode(error, Code.nodeExists, Code.noAuth)) throw error;
          }),
      ),
    );
  }

  /** Deletes the queue nodes of a request. False if one of them was already gone. */
  async removeNodes(connection: Connection, open: OpenRequest): Promise<boolean> {
    const removed = await Promise.all(
      open.nodes.map(({ path }) =>
        unlessMissing(
          connection.send(remove(path)).then(() => true),
          false,
        ),
      ),
    );
    this.requests.forget(open);
    return removed.every(Boolean);
  }
}

/** For a promise that is awaited later: its rejection is not unhandled until then. */
export function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}

/** `fallback` if the node does not exist. */
export async function unlessMissing<T, N>(sent: Promise<T>, fallback: N): Promise<T | N> {
  try {
    return await sent;
  } catch (error) {
    if (isCode(error, Code.noNode)) return fallback;
    throw error;
  }
}

/** The values of a multi. Throws its error. */
export function valuesOf(results: readonly MultiResult[]): unknown[] {
  for (const result of results) {
    if ("error" in result && result.error !== 0 && result.error !== OTHER_FAILED)
      throw new ServerError(result.error);
  }
  return results.map((result) => ("value" in result ? result.value : null));
}
