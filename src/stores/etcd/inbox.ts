// The inbox of one open store, where revocations are announced. A note may be written while nobody watches:
// before the server has made the watch, or after the connection to it ended. The waiters of the key would
// then wait for the holder's next renewal. So the inbox is read whenever a note may have been missed.
//
// Phases:
// - idle: no request is open.
// - listening: the server sends notes. Once it says since which revision, the inbox is read if a request is
//   older than that.
// - returning: the watch ended. The inbox is read until that works, and watched from there on.
// - closed: with its store.

import type { LossReason } from "../../core/store.ts";
import type { CallSignal } from "./cluster/member.ts";
import type { KeyRange } from "./keys.ts";
import type { OpenRequest, StoreContext } from "./requests.ts";

/** Before the inbox is read again, at first and at most: each pause is twice as long as the one before. */
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1_000;
/** How long a read may take. */
const READ_MS = 1_000;

export type ReportLoss = (id: string, reason: LossReason, detail?: string) => void;

export class Inbox {
  readonly #context: StoreContext;
  readonly #range: KeyRange;
  #phase: "idle" | "listening" | "returning" | "closed" = "idle";
  /** Notes up to this revision may have been missed; null while the server has not said so. */
  #missedUntil: number | null = null;
  #isReading = false;
  #reportLoss: ReportLoss | null = null;

  constructor(context: StoreContext) {
    this.#context = context;
    this.#range = context.keys.inbox(context.storeId);
  }

  onLoss(report: ReportLoss): () => void {
    this.#reportLoss = report;
    return () => {
      this.#reportLoss = null;
    };
  }

  listen(): void {
    if (this.#phase === "idle") this.#watch(0);
  }

  /** The queue keys of a request exist. */
  queued({ revision }: OpenRequest): void {
    if (this.#missedUntil === null || revision === null || revision > this.#missedUntil) return;
    this.#readAfter(0);
  }

  close(): void {
    this.#phase = "closed";
  }

  #watch(since: number): void {
    this.#phase = "listening";
    this.#missedUntil = since === 0 ? null : 0;
    const { watches, requests } = this.#context;
    watches.add(
      { range: this.#range, since, deletesOnly: false },
      (event) => {
        if ("ended" in event) this.#ended();
        if ("written" in event) this.#noted(event.written, event.value);
      },
      (revision) => {
        if (this.#missedUntil !== null) return;
        this.#missedUntil = revision;
        for (const open of requests.all()) this.queued(open);
      },
    );
  }

  #ended(): void {
    if (this.#phase !== "listening") return;
    const isNeeded = this.#context.requests.size > 0;
    this.#phase = isNeeded ? "returning" : "idle";
    this.#missedUntil = null;
    if (isNeeded) this.#readAfter(FIRST_PAUSE_MS);
  }

  #readAfter(pauseMs: number): void {
    if (this.#isReading) return;
    this.#isReading = true;
    const { system } = this.#context;
    const jitteredMs = pauseMs * (0.5 + system.random());
    system.after(jitteredMs, () => void this.#read(Math.max(pauseMs, FIRST_PAUSE_MS)), "background");
  }

  async #read(pauseMs: number): Promise<void> {
    const { system, requests } = this.#context;
    const timeout = system.abortController?.() ?? new AbortController();
    const cancel = system.after(READ_MS, () => timeout.abort(), "background");
    const revision = requests.size === 0 ? null : await this.#readNotes(timeout).catch(() => 0);
    cancel();
    this.#isReading = false;
    if (this.#phase === "closed") return;
    if (revision === 0) return this.#readAfter(Math.min(LONGEST_PAUSE_MS, 2 * pauseMs));
    if (this.#phase === "listening") this.#missedUntil = 0;
    else if (revision === null) this.#phase = "idle";
    else this.#watch(revision + 1);
  }

  /** Resolves with the revision at which the inbox was read. */
  async #readNotes(io: CallSignal): Promise<number> {
    const { kvs, header } = await this.#context.client.range(this.#range, io);
    for (const { key, value } of kvs) this.#noted(key, value);
    return header?.revision ?? 0;
  }

  #noted(name: string, reason: string): void {
    const id = name.slice(this.#range.key.length);
    const open = this.#context.requests.get(id);
    // It has been released since.
    if (open === undefined || open.hasNote) return;
    open.hasNote = true;
    this.#reportLoss?.(id, "revoked", reason);
  }
}
