// One attempt, step by step:
// 1. Nothing blocks the request: one transaction creates its queue keys, and it holds.
// 2. Otherwise, with `order=fifo`, a second transaction puts it at the end of the queue, on a short lease
//    that its heartbeats renew. A waiter that dies delays the queue by that lease only.
// 3. A queued request reads, linearizably, whether anything is ahead of it, and watches that one key.
// 4. When nothing is ahead it holds. It moves to a lease of the full length before the grant is reported.
//
// If the answer to a creating transaction was lost, the next attempt finds the queue keys by their id.

import type { AttemptAnswer, Busy, HolderInfo, Io } from "../../core/store.ts";
import type { Instant } from "../../core/system.ts";
import { toBusy } from "../shared/busy.ts";
import type { CallSignal } from "./cluster/member.ts";
import { isLeaseGone, isNoMember, wasRejected } from "./errors.ts";
import { HEARTBEAT_MS, WAITER_SECONDS } from "./guarantees.ts";
import type { HeldKeys } from "./held-keys.ts";
import { holderInfo } from "./inspect.ts";
import { type EtcdLease, secondsFor } from "./leases.ts";
import { cancelMinHold, prepareMinHold, startMinHold } from "./min-hold.ts";
import type { Notifications } from "./notifications.ts";
import type { LooseCompare, TxnAnswer } from "./protocol/messages.ts";
import {
  hasNothingNewer,
  hasRoom,
  isAbsent,
  isFree,
  isSemaphore,
  type Position,
  readBlockers,
  readPositions,
  rowsOf,
  toPositions,
} from "./queue-rules.ts";
import { FENCE_ROOM, fenceOf, newDetails, type Row } from "./record.ts";
import type { Held, OpenRequest, StoreContext } from "./requests.ts";

/** A lease or a queue key may turn out to be gone once in an attempt. */
const MOST_TRIES = 2;
/** A waiter renews its lease when less than this share of it is left. */
const RENEW_SHARE = 0.75;
/** How often permits are counted again because another request came in between. */
const PERMIT_TRIES = 5;
/** Soon, after a row of this process was removed from the queue. */
const AT_ONCE_MS = 1;

type Answer = AttemptAnswer<Held>;

/** What a creating transaction did. */
type Created =
  /** `isFirst`: nothing can be ahead of it. */
  | { readonly queued: { readonly isFirst: boolean } }
  /** Not `isCertain` if another request came in between and there may be room. */
  | {
      readonly blocked: {
        readonly holders: readonly HolderInfo[];
        readonly revision: number;
        readonly isCertain: boolean;
      };
    }
  | { readonly ended: true };

export class Acquire {
  readonly #context: StoreContext;
  readonly #heldKeys: HeldKeys;
  readonly #notifications: Notifications;

  constructor(context: StoreContext, heldKeys: HeldKeys, notifications: Notifications) {
    this.#context = context;
    this.#heldKeys = heldKeys;
    this.#notifications = notifications;
  }

  async attempt(open: OpenRequest, io: Io): Promise<Answer> {
    const startedAt = this.#context.system.now();
    for (let tries = 1; ; tries += 1) {
      try {
        const answer = await this.#try(open, startedAt, io);
        if (answer !== "dequeued") return answer;
        open.dequeued();
        if (tries === MOST_TRIES) throw new Error("its queue key was deleted again and again");
      } catch (error) {
        if (!isLeaseGone(error) || tries === MOST_TRIES) throw error;
      }
    }
  }

  async #try(open: OpenRequest, startedAt: Instant, io: Io): Promise<Answer | "dequeued"> {
    if (open.revision === null) {
      const created = await this.#create(open, startedAt, io);
      if ("ended" in created) return this.#finish(open, created, io);
      if ("blocked" in created) return this.#reject(open, created.blocked, io);
      if (created.queued.isFirst) return this.#grant(open, [], startedAt, io);
    }
    const [{ positions, revision }] = await Promise.all([
      this.#readPositions(open, io),
      this.#renewLease(open, startedAt, io),
    ]);
    const missing = positions.filter(({ own }) => own === null).length;
    if (missing === positions.length) return "dequeued";
    // An operator deleted one of its queue keys, or marked one as revoked.
    if (missing > 0 || positions.some(({ own }) => own?.details.revoked !== undefined))
      return this.#finish(open, { ended: true }, io);
    const blocked = positions.find(({ ahead }) => ahead.length > 0);
    if (blocked === undefined) return this.#grant(open, positions, startedAt, io);
    const hasRemoved = await this.#notifications.watchAhead(open, blocked, revision, io);
    const heads = positions.flatMap(({ head }) => head ?? []);
    return busy(this.#holders(heads), hasRemoved ? AT_ONCE_MS : HEARTBEAT_MS);
  }

  async #create(open: OpenRequest, startedAt: Instant, io: Io): Promise<Created> {
    const { request } = open;
    const created =
      request.keepMs === 0
        ? await this.#createIfFree(open, startedAt, io)
        : (
            await Promise.all([
              this.#createIfFree(open, startedAt, io),
              prepareMinHold(open, this.#context, io),
            ])
          )[0];
    if (!("blocked" in created) || !request.queue || this.#context.order !== "fifo") return created;
    return this.#enqueue(open, await this.#context.leases.get(WAITER_SECONDS, io), [], false, io);
  }

  async #createIfFree(open: OpenRequest, startedAt: Instant, io: CallSignal): Promise<Created> {
    const { leases, keys } = this.#context;
    const { request } = open;
    const lease = await leases.get(secondsFor(request.ttlMs, request.graceMs), io);
    // A lease that is too old for a full ttl is renewed at the same time.
    const isOld = leases.leftMs(lease, startedAt) < request.ttlMs + request.graceMs;
    const renewal = isOld ? leases.keepAlive(lease, startedAt, io) : null;
    const creation = isSemaphore(request)
      ? this.#createIfRoom(open, lease, io)
      : this.#enqueue(open, lease, isFree(keys, request), true, io);
    return renewal === null ? creation : (await Promise.all([creation, renewal]))[0];
  }

  async #createIfRoom(open: OpenRequest, lease: EtcdLease, io: CallSignal): Promise<Created> {
    for (let tries = 1; ; tries += 1) {
      const created = await this.#createIfUnchanged(open, lease, io);
      if (!("blocked" in created) || created.blocked.isCertain || tries === PERMIT_TRIES) return created;
    }
  }

  /** Adds up permits here. The transaction then makes sure that no request has come since. */
  async #createIfUnchanged(open: OpenRequest, lease: EtcdLease, io: CallSignal): Promise<Created> {
    const { client, keys } = this.#context;
    const { request } = open;
    const success = request.keys.map((key) => ({ range: keys.lock(key) }));
    const { answers, header } = await client.txn({ success }, io);
    const revision = header?.revision ?? 0;
    const byKey = answers.map((answer) => rowsOf(answer, keys));
    const others = byKey.flat().filter((row) => row.id !== request.id);
    const fits = byKey.every((rows) => rows.every(isSemaphore) && hasRoom(rows, request));
    if (!fits && others.length === byKey.flat().length)
      return { blocked: { holders: this.#holders(others), revision, isCertain: true } };
    const unchanged = request.keys.map((key) => hasNothingNewer(keys.lock(key), revision));
    return this.#enqueue(open, lease, unchanged, true, io);
  }

  /** Creates the queue keys of a request, if these comparisons hold. */
  async #enqueue(
    open: OpenRequest,
    lease: EtcdLease,
    conditions: readonly LooseCompare[],
    isFirst: boolean,
    io: CallSignal,
  ): Promise<Created> {
    const { client, keys, system, storeId, leases } = this.#context;
    const { request } = open;
    // It may have ended between two steps of one attempt.
    if (open.isEnded) return { ended: true };
    const own = keys.ofRequest(request);
    const value = JSON.stringify(newDetails(request, storeId, Math.round(system.wallMs())));
    const tombstone = keys.tombstone(request.id, lease.id);
    // If the lock is empty, its own keys are absent too.
    const impliesAbsent = isFirst && request.mode === "exclusive" && !isSemaphore(request);
    open.sent(lease);
    let answer: TxnAnswer;
    try {
      answer = await client.txn(
        {
          compare: [...conditions, ...(impliesAbsent ? [] : own.map(isAbsent)), isAbsent(tombstone)],
          success: own.map((key) => ({ put: { key, value, lease: lease.id } })),
          failure: [...readBlockers(keys, request), { range: { key: tombstone } }],
        },
        io,
      );
    } catch (error) {
      if (wasRejected(error) || isNoMember(error)) open.answered(lease);
      if (isLeaseGone(error)) leases.forget(lease);
      throw error;
    }
    open.answered(lease);
    const revision = answer.header?.revision ?? 0;
    if (!answer.succeeded) return this.#explain(open, answer, revision);
    open.queued(revision, lease);
    return { queued: { isFirst } };
  }

  /** Why the queue keys were not created. */
  #explain(open: OpenRequest, { answers }: TxnAnswer, revision: number): Created {
    const { keys, leases } = this.#context;
    const { request } = open;
    if ((answers.at(-1)?.range?.kvs.length ?? 0) > 0) return { ended: true };
    const [own] = request.keys.map((_key, at) => rowsOf(answers[2 * at], keys)[0]);
    if (own !== undefined) {
      // An earlier message of this id arrived. Nobody else knows the id.
      open.queued(own.revision, leases.byId(own.lease));
      return { queued: { isFirst: false } };
    }
    const heads = request.keys.flatMap((_key, at) => rowsOf(answers[2 * at + 1], keys));
    return { blocked: { holders: this.#holders(heads), revision, isCertain: !isSemaphore(request) } };
  }

  async #readPositions(
    { request, revision }: OpenRequest,
    io: CallSignal,
  ): Promise<{ readonly positions: Position[]; readonly revision: number }> {
    const { client, keys } = this.#context;
    const since = revision ?? 0;
    const { answers, header } = await client.txn({ success: readPositions(keys, request, since) }, io);
    return { positions: toPositions(keys, request, since, answers), revision: header?.revision ?? 0 };
  }

  /** Renews the lease of the queue keys in time for a grant. */
  async #renewLease({ lease, request }: OpenRequest, startedAt: Instant, io: Io): Promise<void> {
    if (lease === null || lease.isGone) return;
    const { leases } = this.#context;
    const fullMs = request.ttlMs + request.graceMs;
    const wantedMs = lease.lifeMs >= fullMs ? fullMs : lease.lifeMs * RENEW_SHARE;
    if (leases.leftMs(lease, startedAt) < wantedMs) await leases.keepAlive(lease, startedAt, io);
  }

  async #grant(
    open: OpenRequest,
    positions: readonly Position[],
    startedAt: Instant,
    io: Io,
  ): Promise<Answer | "dequeued"> {
    const { request, revision, lease } = open;
    const { leases, system, storeId } = this.#context;
    if (open.isEnded) return { ended: true };
    if (revision === null || lease === null || lease.isGone) return "dequeued";
    // It was revoked before its grant was reported.
    if (open.hasNote) return this.#finish(open, { ended: true }, io);
    this.#notifications.inbox.queued(open);
    const { keys, ttlMs, graceMs, mode, limit, keepMs, id } = request;
    if (keepMs > 0 && open.minHold === null) {
      open.minHold = await startMinHold(open, revision, this.#context, io);
      if (open.isEnded) return { ended: true };
      if (open.minHold === null) return "dequeued";
    }
    open.stopWatching();
    let validMs = leases.validMs(lease, startedAt, ttlMs, graceMs);
    if (validMs <= 0) throw new Error("its lease is too old for a grant");
    open.held ??= {
      id,
      revision,
      details: newDetails(request, storeId, Math.round(system.wallMs())),
      modRevisions: keys.map((_key, at) => positions[at]?.own?.modRevision ?? revision),
    };
    const fence = fenceOf(revision);
    const fences = keys.map(() => fence);
    if (lease.lifeMs < ttlMs + graceMs) {
      const item = { request, cookie: open.held, ttlMs, lastFences: fences, label: request.label };
      const [moved] = await this.#heldKeys.renew([item], io);
      if (open.isEnded) return { ended: true };
      if (moved?.state === "lost")
        return moved.reason === "gone" ? "dequeued" : this.#finish(open, { ended: true }, io);
      // A full etcd writes nothing. The grant is then as long as the waiter's lease, and core renews it at
      // once.
      if (moved?.state === "renewed") validMs = Math.max(validMs, moved.validMs);
    }
    const reservedFences = mode === "exclusive" && limit === 1 ? FENCE_ROOM : 0;
    return { granted: { fences, reservedFences, validMs, cookie: open.held } };
  }

  /**
   * Without a queue key, a request that does not wait is over. With `order=exclusive`, any release wakes it.
   */
  async #reject(
    open: OpenRequest,
    { holders, revision }: { readonly holders: readonly HolderInfo[]; readonly revision: number },
    io: Io,
  ): Promise<Answer> {
    if (!open.request.queue) return this.#finish(open, busy(holders), io);
    this.#notifications.watchReleases(open, revision);
    return busy(holders);
  }

  /** Core asks no more with this id. Queue keys that exist, or may still be created, are removed. */
  async #finish(open: OpenRequest, answer: Answer, io: Io): Promise<Answer> {
    if (open.isEnded) return { ended: true };
    const { requests } = this.#context;
    requests.end(open.request);
    cancelMinHold(open, this.#context, io);
    if (open.mayHaveKeys) await this.#heldKeys.remove(open, null, io);
    else requests.forget(open);
    return answer;
  }

  /** Rows that certainly hold: a request for several keys may be first in one queue and hold none. */
  #holders(rows: readonly Row[]): HolderInfo[] {
    const nowMs = this.#context.system.wallMs();
    return rows.filter((row) => row.details.keys === undefined).map((row) => holderInfo(row, nowMs, null));
  }
}

function busy(holders: readonly HolderInfo[], againMs: number = HEARTBEAT_MS): { readonly busy: Busy } {
  return { busy: holders.length > 0 ? toBusy(holders, (holder) => holder, againMs) : { againMs } };
}
