// What one open store shares between its parts, and what it remembers of its open requests: their queue keys,
// the lease of these keys, and which of their messages got no answer.
//
// A request that has ended stays ended (P8). This process remembers its id. If a message of the request may
// still arrive, etcd gets a tombstone on the lease that the message carries: the message finds the tombstone,
// or its lease is gone. Either way it changes nothing.

import type { Request } from "../../core/store.ts";
import type { System } from "../../core/system.ts";
import { EndedIds } from "../shared/ended-ids.ts";
import type { EtcdClient } from "./cluster/cluster.ts";
import type { Keys } from "./keys.ts";
import type { EtcdLease, Leases } from "./leases.ts";
import type { Watches } from "./notifications.ts";
import type { Order } from "./options.ts";
import type { Details } from "./record.ts";

export interface StoreContext {
  readonly client: EtcdClient;
  readonly system: System;
  readonly keys: Keys;
  readonly leases: Leases;
  readonly requests: OpenRequests;
  readonly watches: Watches;
  readonly order: Order;
  /** Id of this open store, by which other processes address it. */
  readonly storeId: string;
}

/** A record that outlives its holder, and when it ends by this process's clock. */
export interface MinHold {
  readonly lease: EtcdLease;
  readonly endsAtMs: number;
}

/** The cookie of a grant. */
export interface Held {
  readonly id: string;
  readonly revision: number;
  /** What the record of each key contains, and the revision at which it was written. */
  details: Details;
  modRevisions: number[];
}

export class OpenRequest {
  request: Request;
  /** When core last attempted. */
  attemptedAtMs = 0;
  /** The revision at which its queue keys were created: its position. Null while unknown. */
  revision: number | null = null;
  /** It had queue keys, which may still exist although `revision` is null. */
  wasQueued = false;
  /** The lease of its queue keys. */
  lease: EtcdLease | null = null;
  held: Held | null = null;
  /** The lease for `minHold`, granted ahead of time. */
  minHoldLease: EtcdLease | null = null;
  minHold: MinHold | null = null;
  /** Messages without an answer that may still create its queue keys, counted by lease. */
  readonly unanswered: Map<EtcdLease, number> = new Map();
  wake: (() => void) | null = null;
  /** What it watches, and how to stop that. */
  watch: { readonly what: string; stop(): void } | null = null;
  /** The request has ended: nothing more is sent for it, whatever is under way. */
  isEnded = false;
  /** The inbox of this store has a note about it. */
  hasNote = false;

  constructor(request: Request) {
    this.request = request;
  }

  sent(lease: EtcdLease): void {
    this.unanswered.set(lease, (this.unanswered.get(lease) ?? 0) + 1);
  }

  answered(lease: EtcdLease): void {
    const left = (this.unanswered.get(lease) ?? 1) - 1;
    if (left === 0) this.unanswered.delete(lease);
    else this.unanswered.set(lease, left);
  }

  /** Nothing of it is in etcd, and no message of it is under way. */
  get isUntouched(): boolean {
    return !this.mayHaveKeys && this.minHoldLease === null && !this.hasNote;
  }

  /** Its queue keys exist, or may exist. */
  get mayHaveKeys(): boolean {
    return this.wasQueued || this.unanswered.size > 0;
  }

  queued(revision: number, lease: EtcdLease | null): void {
    this.revision = revision;
    this.lease = lease;
    this.wasQueued = true;
  }

  /** Its queue keys are gone, or have a lease that this process cannot renew. */
  dequeued(): void {
    this.revision = null;
    this.lease = null;
  }

  stopWatching(): void {
    this.watch?.stop();
    this.watch = null;
  }
}

export class OpenRequests {
  readonly #system: System;
  readonly #byId = new Map<string, OpenRequest>();
  readonly #ended = new EndedIds();

  constructor(system: System) {
    this.#system = system;
  }

  get(id: string): OpenRequest | undefined {
    return this.#byId.get(id);
  }

  /** Null if the id has ended. */
  open(request: Request): OpenRequest | null {
    if (this.#ended.has(request.id)) return null;
    const known = this.#byId.get(request.id);
    if (known !== undefined) {
      known.request = request;
      return known;
    }
    const open = new OpenRequest(request);
    this.#byId.set(request.id, open);
    return open;
  }

  /**
   * From now on an attempt with this id changes nothing. The request stays known until etcd has acknowledged
   * its end.
   */
  end(request: Request): OpenRequest {
    this.#ended.add(request.id, this.#system.monoMs());
    const open = this.#byId.get(request.id) ?? new OpenRequest(request);
    open.isEnded = true;
    open.stopWatching();
    open.held = null;
    return open;
  }

  /** etcd knows that it ended, or never knew it. */
  forget(open: OpenRequest): void {
    open.stopWatching();
    if (this.#byId.get(open.request.id) === open) this.#byId.delete(open.request.id);
  }

  all(): Iterable<OpenRequest> {
    return this.#byId.values();
  }

  get size(): number {
    return this.#byId.size;
  }
}
