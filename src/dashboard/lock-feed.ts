// The data of the page: all locks for a new reader, and then the changes. It lists the locks of the store
// only while a page is open, and for at most a tenth of the time.

import type { Locks } from "../core/api.ts";
import type { Finding, LockInfo } from "../core/store.ts";

export interface LockJson {
  readonly key: string;
  readonly limit: number;
  readonly holders: readonly {
    readonly label: string;
    readonly mode: string;
    readonly permits: number;
    readonly fence: string;
    /** Times are ms since 1970, by the clock of this process. */
    readonly since: number;
    readonly until: number;
    readonly kept: boolean;
    readonly waitingFor: string | null;
    readonly revoked: string | null;
  }[];
  /** null if the store cannot know the waiters. */
  readonly waiters:
    | readonly {
        readonly label: string;
        readonly mode: string;
        readonly permits: number;
        readonly since: number;
      }[]
    | null;
}

export type FeedMessage =
  | {
      readonly type: "all" | "change";
      readonly at: number;
      readonly set: readonly LockJson[];
      readonly gone: readonly string[];
    }
  /** A deadlock of this process. The feed does not see calls of other processes. */
  | { readonly type: "deadlock"; readonly at: number; readonly cycle: readonly string[] }
  | { readonly type: "lost"; readonly at: number; readonly key: string; readonly what: string }
  | { readonly type: "findings"; readonly findings: readonly Finding[] }
  | { readonly type: "away"; readonly at: number; readonly message: string };

type Reader = (message: FeedMessage) => void;

const LOOK_EVERY_MS = 1_000;
const CHECK_EVERY_MS = 60_000;
/** The share of the time in which the feed may query the store. */
const LOAD = 0.1;
/** A renewal that moves the end of a lease by less than this is not sent. */
const MOVED_MS = 1_500;

export class LockFeed {
  readonly #locks: Locks;
  readonly #readers = new Set<Reader>();
  #seen = new Map<string, LockJson>();
  #findings: readonly Finding[] = [];
  #isComplete = false;
  #isLooking = false;
  #stopListening: () => void = () => {};

  constructor(locks: Locks) {
    this.#locks = locks;
  }

  /** Adds a reader. Returns a function that removes it. */
  read(reader: Reader): () => void {
    this.#readers.add(reader);
    if (this.#isComplete) {
      reader({ type: "all", at: Date.now(), set: [...this.#seen.values()], gone: [] });
      reader({ type: "findings", findings: this.#findings });
    }
    if (this.#readers.size === 1) this.#listen();
    if (!this.#isLooking) void this.#look();
    return () => {
      this.#readers.delete(reader);
      if (this.#readers.size === 0) this.#stopListening();
    };
  }

  #listen(): void {
    const stops = [
      this.#locks.on("deadlock", ({ cycle }) =>
        this.#send({ type: "deadlock", at: Date.now(), cycle: cycle.map(({ holds }) => holds) }),
      ),
      this.#locks.on("lost", ({ key, label, reason }) =>
        this.#send({ type: "lost", at: Date.now(), key, what: `${label} lost it: ${reason}` }),
      ),
    ];
    this.#stopListening = () => stops.forEach((stop) => stop());
  }

  async #look(): Promise<void> {
    this.#isLooking = true;
    let checkedAtMs = Number.NEGATIVE_INFINITY;
    while (this.#readers.size > 0) {
      const startMs = performance.now();
      try {
        await this.#lookOnce();
        if (performance.now() - checkedAtMs > CHECK_EVERY_MS) {
          checkedAtMs = performance.now();
          this.#findings = await this.#locks.check();
          this.#send({ type: "findings", findings: this.#findings });
        }
      } catch (error) {
        const message = error instanceof Error ? error.message : String(error);
        this.#send({ type: "away", at: Date.now(), message });
      }
      const tookMs = performance.now() - startMs;
      await new Promise((resolve) => setTimeout(resolve, Math.max(LOOK_EVERY_MS, tookMs / LOAD)));
    }
    this.#isLooking = false;
    this.#isComplete = false;
    this.#seen = new Map();
  }

  async #lookOnce(): Promise<void> {
    const now = new Map<string, LockJson>();
    for await (const info of this.#locks.list()) now.set(info.key, lockJson(info, Date.now()));
    const before = this.#seen;
    const set = [...now.values()].filter((lock) => hasChanged(before.get(lock.key), lock));
    const gone = [...before.keys()].filter((key) => !now.has(key));
    // Keep the sent times of unchanged locks, so that they do not jitter.
    for (const lock of now.values()) {
      const old = before.get(lock.key);
      if (old !== undefined && !hasChanged(old, lock)) now.set(lock.key, old);
    }
    const type = this.#isComplete ? "change" : "all";
    this.#seen = now;
    this.#isComplete = true;
    this.#send({ type, at: Date.now(), set, gone });
  }

  #send(message: FeedMessage): void {
    for (const reader of this.#readers) reader(message);
  }
}

export function lockJson(info: LockInfo, atMs: number): LockJson {
  const { key, limit, holders, waiters } = info;
  return {
    key,
    limit,
    holders: holders.map((holder) => ({
      label: holder.label,
      mode: holder.mode,
      permits: holder.permits,
      fence: String(holder.fence),
      since: Math.round(atMs - holder.heldMs),
      until: Math.round(atMs + holder.remainingMs),
      kept: holder.kept === true,
      waitingFor: holder.waitingFor ?? null,
      revoked: holder.revoked ?? null,
    })),
    waiters:
      waiters?.map(({ label, mode, permits, waitedMs }) => ({
        label,
        mode,
        permits,
        since: Math.round(atMs - waitedMs),
      })) ?? null,
  };
}

function hasChanged(old: LockJson | undefined, now: LockJson): boolean {
  if (old === undefined || identity(old) !== identity(now)) return true;
  return now.holders.some(({ until }, i) => Math.abs(until - (old.holders[i]?.until ?? 0)) > MOVED_MS);
}

/** A text of everything except the times, which differ a little in each query. */
function identity({ limit, holders, waiters }: LockJson): string {
  const times = { since: 0, until: 0 };
  return JSON.stringify([
    limit,
    holders.map((holder) => ({ ...holder, ...times })),
    waiters?.map((waiter) => ({ ...waiter, ...times })),
  ]);
}
