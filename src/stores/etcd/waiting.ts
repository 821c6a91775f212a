// Waiting without asking: a waiter watches the one who is before it and nobody else, so that one release wakes one waiter
// (P14). Where places are not kept it watches the whole lock, and wakes after a moment of chance. A process also listens for
// news that one of its grants was revoked; whoever misses it learns of it by its next renewal.

import type { HolderInfo, LossReason, Request } from "../../core/store.ts";
import type { Claim } from "./claims.ts";
import type { Deps } from "./deps.ts";
import { HEARTBEAT_MS, PLACE_SECONDS } from "./guarantees.ts";
import { isSemaphore, ownNames, type Standing } from "./line.ts";
import type { Patience } from "./port.ts";
import type { Row } from "./record.ts";
import { holderInfo } from "./sight.ts";

/** Where a release wakes everybody, they come one after another. */
const JITTER_MS = 4;
const AT_ONCE_MS = 1;

export class Waiting {
  readonly #deps: Deps;
  #tellLoss: ((id: string, reason: LossReason, detail?: string) => void) | null = null;
  #listening = false;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  subscribe(request: Request, wake: () => void): () => void {
    const claim = this.#deps.claims.open(request);
    if (claim === null) return () => {};
    claim.wake = wake;
    return () => {
      claim.wake = null;
      claim.watchNothing();
      // Nothing of it has left this process.
      if (claim.seenMs === 0) this.#deps.claims.forget(claim);
    };
  }

  onLoss(tell: (id: string, reason: LossReason, detail?: string) => void): () => void {
    this.#tellLoss = tell;
    return () => {
      this.#tellLoss = null;
    };
  }

  /** Makes sure that this process hears of revocations. */
  listen(): void {
    if (this.#listening) return;
    this.#listening = true;
    const { watches, names, proc, claims } = this.#deps;
    const span = names.inbox(proc);
    watches.add({ span, since: 0, deletesOnly: false }, (news) => {
      if ("cutOff" in news) this.#listening = false;
      if (!("written" in news)) return;
      const id = news.written.slice(span.key.length);
      const claim = claims.get(id);
      if (claim !== undefined) claim.told = true;
      this.#tellLoss?.(id, "revoked", news.value);
    });
  }

  /** The first in line, unless it may be waiting itself: one that wants several keys. */
  shown(head: Row | null): HolderInfo[] {
    if (head === null || head.words.keys !== undefined) return [];
    return [holderInfo(head, this.#deps.system.wallMs(), null)];
  }

  /** Sets the watch of one who is behind others. Gives how long to wait before looking again. */
  async behind(claim: Claim, line: Standing, revision: number, io: Patience): Promise<number> {
    const [row] = line.before;
    if (row === undefined || (await this.#unseat(claim, row, io))) return AT_ONCE_MS;
    if (claim.wake === null) return HEARTBEAT_MS;
    if (isSemaphore(claim.request)) this.#forRoom(claim, line, revision);
    else this.#forOne(claim, row, revision);
    return HEARTBEAT_MS;
  }

  #forOne(claim: Claim, row: Row, revision: number): void {
    if (claim.watching?.what === row.name) return;
    claim.watchNothing();
    const wish = { span: { key: row.name }, since: revision + 1, deletesOnly: true };
    const stop = this.#deps.watches.add(wish, () => {
      claim.watchNothing();
      claim.wake?.();
    });
    claim.watching = { what: row.name, stop };
  }

  /** Of a semaphore anybody's leaving may make room; it is added up here who has left. */
  #forRoom(claim: Claim, { key, before }: Standing, revision: number): void {
    const { names, watches } = this.#deps;
    const { request } = claim;
    claim.watchNothing();
    const left = new Map(before.map((row) => [row.name, row]));
    const span = names.lock(key);
    // Where limits differ, or a lock is in the way, it is not only the sum of permits that counts.
    const sums = before.every((row) => row.limit === request.limit);
    const stop = watches.add({ span, since: revision + 1, deletesOnly: true }, (news) => {
      if ("deleted" in news) left.delete(news.deleted);
      const ids = new Map([...left.values()].map((row) => [row.id, row.words.permits]));
      const taken = [...ids.values()].reduce((sum, permits) => sum + permits, 0);
      if (sums && !("cutOff" in news) && taken + request.permits > request.limit) return;
      claim.watchNothing();
      claim.wake?.();
    });
    claim.watching = { what: span.key, stop };
  }

  /** For one without a place: whoever leaves may leave it room. */
  forAnybody(claim: Claim, revision: number): void {
    const { names, watches, system } = this.#deps;
    if (claim.wake === null || claim.watching !== null) return;
    const stops = claim.request.keys.map((key) =>
      watches.add({ span: names.lock(key), since: revision + 1, deletesOnly: true }, (news) => {
        if ("cutOff" in news) claim.watchNothing();
        system.after(system.random() * JITTER_MS, () => claim.wake?.());
      }),
    );
    const stop = (): void => {
      for (const one of stops) one();
    };
    claim.watching = { what: "anybody", stop };
  }

  /**
   * Others keep the leases of this process alive, so it removes its own rows that nobody wants any more: of an
   * id that it has forgotten, and of one that has not asked for longer than its place lasts.
   */
  async #unseat(claim: Claim, row: Row, io: Patience): Promise<boolean> {
    const { claims, system, port, names, proc } = this.#deps;
    if (row.kept || row.words.proc !== proc || row.id === claim.request.id) return false;
    const other = claims.get(row.id);
    if (other !== undefined && !isIdle(other, system.monoMs())) return false;
    const own = other === undefined ? [row.name] : ownNames(names, other.request);
    await port.txn({ success: own.map((key) => ({ delete: { key } })) }, io);
    other?.displaced();
    return true;
  }
}

function isIdle({ held, seenMs }: Claim, nowMs: number): boolean {
  return held === null && nowMs - seenMs > PLACE_SECONDS * 1_000;
}
