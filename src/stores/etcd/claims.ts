// What one opened store remembers of the requests that are open in it: their place in line, the lease it hangs on, and which
// of their messages have had no answer. An id that has ended stays ended (P8): here by memory, and in etcd by a mark on each
// lease with which a message of it may still arrive; such a message dies with its lease, and the mark with it.

import type { Request } from "../../core/store.ts";
import type { System } from "../../core/system.ts";
import { EndedIds } from "../shared/ended-ids.ts";
import type { EtcdLease } from "./leases.ts";
import type { Words } from "./record.ts";

/** A key that stays taken, and until when by this process's clock. */
export interface Kept {
  readonly lease: EtcdLease;
  readonly overAtMs: number;
}

/** The cookie of a grant. */
export interface Held {
  readonly id: string;
  readonly revision: number;
  /** What stands in the record of each key, and the revision at which it was written. */
  words: Words;
  modRevisions: number[];
}

export class Claim {
  request: Request;
  /** When it last asked. */
  seenMs = 0;
  /** Its place in line: the revision at which its names were created, once known. */
  revision: number | null = null;
  /** It has had a place, and its names may be in etcd although `revision` is null. */
  hadPlace = false;
  /** What its names hang on. */
  lease: EtcdLease | null = null;
  held: Held | null = null;
  /** For what is to be kept, once it is granted. */
  keepLease: EtcdLease | null = null;
  /** Known to be kept. */
  kept: Kept | null = null;
  /** Messages without an answer that may still create its names, by lease. */
  readonly unanswered: Map<EtcdLease, number> = new Map();
  wake: (() => void) | null = null;
  /** What it waits for, and how to stop that. */
  watching: { readonly what: string; stop(): void } | null = null;
  /** Its id has ended: no more messages of it are sent, whatever is still under way. */
  over = false;
  /** There is news of it in the inbox. */
  told = false;

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

  /** Nothing of it is in etcd, and no message of it is on its way. */
  get isUntouched(): boolean {
    return !this.mayHaveNames && this.keepLease === null && !this.told;
  }

  /** Its names are in etcd, or may be. */
  get mayHaveNames(): boolean {
    return this.hadPlace || this.unanswered.size > 0;
  }

  placed(revision: number, lease: EtcdLease | null): void {
    this.revision = revision;
    this.lease = lease;
    this.hadPlace = true;
  }

  /** Its names are gone from etcd, or hang on a lease that this process cannot renew. */
  displaced(): void {
    this.revision = null;
    this.lease = null;
  }

  watchNothing(): void {
    this.watching?.stop();
    this.watching = null;
  }
}

export class Claims {
  readonly #system: System;
  readonly #byId = new Map<string, Claim>();
  readonly #ended = new EndedIds();

  constructor(system: System) {
    this.#system = system;
  }

  get(id: string): Claim | undefined {
    return this.#byId.get(id);
  }

  /** Null when the id has ended. */
  open(request: Request): Claim | null {
    if (this.#ended.has(request.id)) return null;
    const claim = this.#byId.get(request.id) ?? new Claim(request);
    claim.request = request;
    this.#byId.set(request.id, claim);
    return claim;
  }

  /** From now on every attempt with this id changes nothing. The claim is still known until the server has been told. */
  end(request: Request): Claim {
    this.#ended.add(request.id, this.#system.monoMs());
    const claim = this.#byId.get(request.id) ?? new Claim(request);
    claim.over = true;
    claim.watchNothing();
    claim.held = null;
    return claim;
  }

  /** The server knows of its end, or never heard of it. */
  forget(claim: Claim): void {
    claim.watchNothing();
    if (this.#byId.get(claim.request.id) === claim) this.#byId.delete(claim.request.id);
  }

  get size(): number {
    return this.#byId.size;
  }
}
