// How waiters are woken. A waiter watches the one key ahead of it, so one release wakes one waiter (P14).
// With `order=exclusive` it watches the whole lock, and wakes after a random delay.
//
// All watches of one open store share one stream. A watch that ends, for whatever reason (the stream ended,
// the member was dropped, its revision was compacted), reports that once. The next attempt sets a new one.

import type { Request } from "../../core/store.ts";
import type { EtcdClient } from "./cluster/cluster.ts";
import type { CallSignal, WatchStream } from "./cluster/member.ts";
import { WAITER_SECONDS } from "./guarantees.ts";
import { Inbox } from "./inbox.ts";
import type { KeyRange } from "./keys.ts";
import { DELETED, NO_PUT, type WatchAnswer } from "./protocol/messages.ts";
import { isSemaphore, type Position } from "./queue-rules.ts";
import type { Row } from "./record.ts";
import type { OpenRequest, StoreContext } from "./requests.ts";

/** Where a release wakes every waiter, they attempt one after another. */
const JITTER_MS = 4;

export class Notifications {
  readonly #context: StoreContext;
  readonly inbox: Inbox;

  constructor(context: StoreContext) {
    this.#context = context;
    this.inbox = new Inbox(context);
  }

  subscribe(request: Request, wake: () => void): () => void {
    const { requests } = this.#context;
    const open = requests.open(request);
    if (open === null) return () => {};
    open.wake = wake;
    return () => {
      open.wake = null;
      open.stopWatching();
      // Nothing was sent for it.
      if (open.attemptedAtMs === 0) requests.forget(open);
    };
  }

  /** Watches what is ahead of a waiter. True if a stale row of this process was removed instead. */
  async watchAhead(
    open: OpenRequest,
    position: Position,
    revision: number,
    io: CallSignal,
  ): Promise<boolean> {
    const [nearest] = position.ahead;
    if (nearest === undefined || (await this.#removeStale(open, nearest, io))) return true;
    if (open.wake === null) return false;
    if (isSemaphore(open.request)) this.#watchPermits(open, position, revision);
    else this.#watchRow(open, nearest, revision);
    return false;
  }

  #watchRow(open: OpenRequest, { name }: Row, revision: number): void {
    if (open.watch?.what === name) return;
    open.stopWatching();
    const stop = this.#context.watches.add(
      { range: { key: name }, since: revision + 1, deletesOnly: true },
      () => {
        open.stopWatching();
        open.wake?.();
      },
    );
    open.watch = { what: name, stop };
  }

  /** Any release of a semaphore may make room. The permits that are left are added up here. */
  #watchPermits(open: OpenRequest, { key, ahead }: Position, revision: number): void {
    const { keys, watches } = this.#context;
    const { request } = open;
    open.stopWatching();
    const left = new Map(ahead.map((row) => [row.name, row]));
    const range = keys.lock(key);
    // Where limits differ, or a lock is ahead, the sum of permits does not decide alone.
    const sumDecides = ahead.every((row) => row.limit === request.limit);
    const stop = watches.add({ range, since: revision + 1, deletesOnly: true }, (event) => {
      if ("deleted" in event) left.delete(event.deleted);
      const byId = new Map([...left.values()].map((row) => [row.id, row.details.permits]));
      const taken = [...byId.values()].reduce((sum, permits) => sum + permits, 0);
      if (sumDecides && !("ended" in event) && taken + request.permits > request.limit) return;
      open.stopWatching();
      open.wake?.();
    });
    open.watch = { what: range.key, stop };
  }

  /** For `order=exclusive`: any release wakes it. */
  watchReleases(open: OpenRequest, revision: number): void {
    const { keys, watches, system } = this.#context;
    if (open.wake === null || open.watch !== null) return;
    const stops = open.request.keys.map((key) =>
      watches.add({ range: keys.lock(key), since: revision + 1, deletesOnly: true }, (event) => {
        if ("ended" in event) open.stopWatching();
        system.after(system.random() * JITTER_MS, () => open.wake?.());
      }),
    );
    open.watch = {
      what: "releases",
      stop() {
        for (const one of stops) one();
      },
    };
  }

  /**
   * Other requests of this process keep its leases alive, so this process removes rows of its own that nobody
   * wants any more: those of a forgotten id, and those of a waiter that stopped attempting.
   */
  async #removeStale(open: OpenRequest, row: Row, io: CallSignal): Promise<boolean> {
    const { requests, system, client, keys, storeId } = this.#context;
    if (row.isKept || row.details.proc !== storeId || row.id === open.request.id) return false;
    const other = requests.get(row.id);
    if (other !== undefined && !isIdle(other, system.monoMs())) return false;
    const names = other === undefined ? [row.name] : keys.ofRequest(other.request);
    await client.txn({ success: names.map((key) => ({ delete: { key } })) }, io);
    other?.dequeued();
    return true;
  }
}

function isIdle({ held, attemptedAtMs }: OpenRequest, nowMs: number): boolean {
  return held === null && nowMs - attemptedAtMs > WAITER_SECONDS * 1_000;
}

export type KeyEvent =
  | { readonly deleted: string }
  | { readonly written: string; readonly value: string }
  /** The watch is over, and may have missed events. */
  | { readonly ended: true };

export interface WatchSpec {
  readonly range: KeyRange | { readonly key: string };
  /** The first revision of interest; 0 for everything from now on. */
  readonly since: number;
  readonly deletesOnly: boolean;
}

export class Watches {
  readonly #client: EtcdClient;
  readonly #listeners = new Map<number, (event: KeyEvent) => void>();
  /** Of the watches that the server has not confirmed. */
  readonly #confirmations = new Map<number, (revision: number) => void>();
  #stream: WatchStream | null = null;
  #nextId = 1;

  constructor(client: EtcdClient) {
    this.#client = client;
  }

  /**
   * Returns a function that ends the watch. With `since` 0, `confirmed` gets the revision that the server
   * watches from, exclusively.
   */
  add(
    { range, since, deletesOnly }: WatchSpec,
    listener: (event: KeyEvent) => void,
    confirmed?: (revision: number) => void,
  ): () => void {
    const id = this.#nextId;
    this.#nextId += 1;
    this.#listeners.set(id, listener);
    if (confirmed !== undefined) this.#confirmations.set(id, confirmed);
    const stream = this.#stream ?? this.#open();
    const filters = deletesOnly ? [NO_PUT] : [];
    stream.send({ create: { ...range, startRevision: since, filters, id } });
    return () => {
      if (this.#listeners.delete(id)) this.#stream?.send({ cancel: { id } });
    };
  }

  /** Ends the stream, and with it every watch. */
  disconnect(): void {
    this.#stream?.close();
    this.#endAll();
  }

  close(): void {
    this.#listeners.clear();
    this.#stream?.close();
    this.#stream = null;
  }

  #open(): WatchStream {
    const stream = this.#client.watch(
      (answer) => this.#receive(answer),
      () => {
        if (this.#stream === stream) this.#endAll();
      },
    );
    this.#stream = stream;
    return stream;
  }

  #receive({ id, created, canceled, header, events }: WatchAnswer): void {
    const listener = this.#listeners.get(id);
    const confirmed = this.#confirmations.get(id);
    this.#confirmations.delete(id);
    if (listener === undefined) return;
    if (created && !canceled) confirmed?.(header?.revision ?? 0);
    if (canceled) {
      this.#listeners.delete(id);
      listener({ ended: true });
      return;
    }
    for (const { type, kv } of events) {
      if (kv === null) continue;
      listener(type === DELETED ? { deleted: kv.key } : { written: kv.key, value: kv.value });
    }
  }

  #endAll(): void {
    this.#stream = null;
    const all = [...this.#listeners.values()];
    this.#listeners.clear();
    this.#confirmations.clear();
    for (const listener of all) listener({ ended: true });
  }
}
