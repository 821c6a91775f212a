// What this opened store knows of its own requests: their places in line, whether they were granted, and what they watch.
// The server is the truth; this is only the way to find one's own nodes again without searching.

import type { Entry } from "./names.ts";
import type { PlaceRecord, Row } from "./record.ts";

/** One node of ours. */
export interface Place {
  readonly key: string;
  readonly path: string;
  readonly entry: Entry;
  readonly czxid: bigint;
  /** As we last wrote or read it. */
  record: PlaceRecord;
  version: number;
}

/** Nodes of a session, and the bytes of their paths. */
export interface SessionSize {
  readonly nodes: number;
  readonly bytes: number;
}

export class Claim {
  readonly id: string;
  readonly session: bigint;
  readonly size: SessionSize;
  /** One per key, in the order of the request. Empty while nobody knows whether they were made. */
  places: readonly Place[] = [];
  /** Settles when the server has answered to the making of the places, or can no more. */
  making: Promise<unknown> | null = null;
  granted = false;
  /** Monotonic ms. */
  grantedAtMs = 0;
  /** The key stays taken for its time even without us. */
  kept = false;
  /** Paths whose end may make it our turn. */
  watching: readonly string[] = [];
  /** When the leader last had them all, or they were first watched. Monotonic ms. */
  vouchedAtMs = 0;
  /** One of them has ended. */
  stirred = false;
  /** When we last read who holds. */
  lookedAtMs: number = Number.NEGATIVE_INFINITY;
  /** Who held when we last looked. */
  holders: readonly { readonly path: string; readonly row: Row }[] = [];

  constructor(id: string, session: bigint, size: SessionSize) {
    this.id = id;
    this.session = session;
    this.size = size;
  }
}

const EMPTY: SessionSize = { nodes: 0, bytes: 0 };

export class Claims {
  readonly #byId = new Map<string, Claim>();
  /** Who waits for the end of a path. */
  readonly #watchers = new Map<string, Set<Claim>>();
  readonly #unwatch: (path: string) => void;
  /** Of the newest session. */
  #session = 0n;
  #size: SessionSize = EMPTY;

  /** `unwatch`: nobody here wants to know of that path any more. */
  constructor(unwatch: (path: string) => void) {
    this.#unwatch = unwatch;
  }

  get(id: string): Claim | undefined {
    return this.#byId.get(id);
  }

  sizeOf(session: bigint): SessionSize {
    return session === this.#session ? this.#size : EMPTY;
  }

  begin(id: string, session: bigint, size: SessionSize): Claim {
    const claim = new Claim(id, session, size);
    const { nodes, bytes } = this.sizeOf(session);
    this.#session = session;
    this.#size = { nodes: nodes + size.nodes, bytes: bytes + size.bytes };
    this.#byId.set(id, claim);
    return claim;
  }

  forget(claim: Claim): void {
    this.watch(claim, []);
    if (this.#byId.get(claim.id) !== claim) return;
    this.#byId.delete(claim.id);
    if (claim.session !== this.#session) return;
    const { nodes, bytes } = this.#size;
    this.#size = { nodes: nodes - claim.size.nodes, bytes: bytes - claim.size.bytes };
  }

  /** Replaces what the claim watches. */
  watch(claim: Claim, paths: readonly string[]): void {
    for (const path of claim.watching) {
      if (paths.includes(path)) continue;
      const watchers = this.#watchers.get(path);
      watchers?.delete(claim);
      if (watchers?.size !== 0) continue;
      this.#watchers.delete(path);
      this.#unwatch(path);
    }
    for (const path of paths) {
      const watchers = this.#watchers.get(path) ?? new Set();
      this.#watchers.set(path, watchers.add(claim));
    }
    claim.watching = paths;
  }

  /** The path has ended: those who waited for that have to look. */
  ended(path: string): readonly Claim[] {
    const woken = [...(this.#watchers.get(path) ?? [])];
    this.#watchers.delete(path);
    for (const claim of woken) {
      claim.stirred = true;
      claim.watching = claim.watching.filter((one) => one !== path);
    }
    return woken;
  }

  granted(): Claim[] {
    return [...this.#byId.values()].filter((claim) => claim.granted);
  }

  all(): Claim[] {
    return [...this.#byId.values()];
  }
}
