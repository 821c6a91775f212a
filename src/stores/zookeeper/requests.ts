// What one open store remembers of its open requests: their queue nodes, whether they were granted, and what
// they watch. The server has the truth; this memory only saves searching for our own nodes.

import type { Entry } from "./paths.ts";
import type { NodeRecord, Row } from "./record.ts";

/** One queue node of ours. */
export interface QueueNode {
  readonly key: string;
  readonly path: string;
  readonly entry: Entry;
  readonly czxid: bigint;
  /** As this process last wrote or read it. */
  record: NodeRecord;
  version: number;
}

/** Nodes of a session, and the bytes of their paths. */
export interface SessionSize {
  readonly nodes: number;
  readonly bytes: number;
}

export class OpenRequest {
  readonly id: string;
  readonly session: bigint;
  readonly size: SessionSize;
  /** One per key, in the order of the request. Empty while it is unknown whether they were created. */
  nodes: readonly QueueNode[] = [];
  /** Settles when the server has answered the creation of the nodes, or cannot any more. */
  creation: Promise<unknown> | null = null;
  isGranted = false;
  /** Monotonic ms. */
  grantedAtMs = 0;
  /** It has kept nodes. */
  isKept = false;
  /** Paths whose deletion may make it hold. */
  watched: readonly string[] = [];
  /** When the leader last had all watched nodes, or they were first watched. Monotonic ms. */
  confirmedAtMs = 0;
  /** One of the watched nodes was deleted. */
  isStirred = false;
  /** When the holders were last read. Monotonic ms. */
  readHoldersAtMs: number = Number.NEGATIVE_INFINITY;
  holders: readonly { readonly path: string; readonly row: Row }[] = [];

  constructor(id: string, session: bigint, size: SessionSize) {
    this.id = id;
    this.session = session;
    this.size = size;
  }
}

const EMPTY: SessionSize = { nodes: 0, bytes: 0 };

export class OpenRequests {
  readonly #byId = new Map<string, OpenRequest>();
  readonly #watchers = new Map<string, Set<OpenRequest>>();
  readonly #unwatch: (path: string) => void;
  /** The newest session. */
  #session = 0n;
  #size: SessionSize = EMPTY;

  /** `unwatch`: no request watches that path any more. */
  constructor(unwatch: (path: string) => void) {
    this.#unwatch = unwatch;
  }

  get(id: string): OpenRequest | undefined {
    return this.#byId.get(id);
  }

  sizeOf(session: bigint): SessionSize {
    return session === this.#session ? this.#size : EMPTY;
  }

  begin(id: string, session: bigint, size: SessionSize): OpenRequest {
    const open = new OpenRequest(id, session, size);
    const { nodes, bytes } = this.sizeOf(session);
    this.#session = session;
    this.#size = { nodes: nodes + size.nodes, bytes: bytes + size.bytes };
    this.#byId.set(id, open);
    return open;
  }

  forget(open: OpenRequest): void {
    this.watch(open, []);
    if (this.#byId.get(open.id) !== open) return;
    this.#byId.delete(open.id);
    if (open.session !== this.#session) return;
    const { nodes, bytes } = this.#size;
    this.#size = { nodes: nodes - open.size.nodes, bytes: bytes - open.size.bytes };
  }

  /** Replaces what the request watches. */
  watch(open: OpenRequest, paths: readonly string[]): void {
    for (const path of open.watched) {
      if (paths.includes(path)) continue;
      const watchers = this.#watchers.get(path);
      watchers?.delete(open);
      if (watchers?.size !== 0) continue;
      this.#watchers.delete(path);
      this.#unwatch(path);
    }
    for (const path of paths) {
      const watchers = this.#watchers.get(path) ?? new Set();
      this.#watchers.set(path, watchers.add(open));
    }
    open.watched = paths;
  }

  /** A watched node was deleted. Returns the requests that have to attempt. */
  deleted(path: string): readonly OpenRequest[] {
    const woken = [...(this.#watchers.get(path) ?? [])];
    this.#watchers.delete(path);
    for (const open of woken) {
      open.isStirred = true;
      open.watched = open.watched.filter((one) => one !== path);
    }
    return woken;
  }

  granted(): OpenRequest[] {
    return [...this.#byId.values()].filter((open) => open.isGranted);
  }
}
