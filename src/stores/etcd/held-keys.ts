// What happens to queue keys after a grant: renewed, moved to a lease of the right length, updated, verified
// and deleted. Every write compares first, so a write that arrives late, or after a revocation, changes
// nothing.

import type { Io, Note, RenewAnswer, RenewItem, Request } from "../../core/store.ts";
import type { Instant } from "../../core/system.ts";
import { type CallSignal, UnansweredCall } from "./cluster/member.ts";
import { etcdError, isDisconnected, isFull, isLeaseGone } from "./errors.ts";
import { type EtcdLease, secondsFor } from "./leases.ts";
import type { LooseCompare, LooseOp } from "./protocol/messages.ts";
import { rowsOf, wasCreatedAt, wasModifiedAt } from "./queue-rules.ts";
import { type Details, fenceOf, type Row } from "./record.ts";
import type { Held, OpenRequest, StoreContext } from "./requests.ts";

/** So many keys are read in one transaction; a server accepts 128 by default. */
const KEYS_PER_READ = 100;
const NOTE_TRIES = 3;

interface Renewal {
  readonly item: RenewItem<Held>;
  readonly open: OpenRequest;
  readonly held: Held;
}

/** The rows of a request, one per key. */
type Rows = readonly (Row | undefined)[];

export class HeldKeys {
  readonly #context: StoreContext;

  constructor(context: StoreContext) {
    this.#context = context;
  }

  async renew(items: readonly RenewItem<Held>[], io: Io): Promise<RenewAnswer[]> {
    const { leases, system } = this.#context;
    const startedAt = system.now();
    const renewals = items.map((item) => this.#renewalOf(item));
    const used = new Set(renewals.flatMap((one) => one?.open.lease ?? []));
    const [rows] = await Promise.all([
      this.#updateAll(
        renewals.filter((one) => one !== null),
        io,
      ),
      Promise.allSettled([...used].map((lease) => leases.keepAlive(lease, startedAt, io))),
    ]);
    return renewals.map((one) =>
      one === null
        ? { state: "lost", reason: "gone" }
        : this.#answer(one, rows.get(one.held.id) ?? null, startedAt),
    );
  }

  /** Null if nothing is held under this id. */
  #renewalOf(item: RenewItem<Held>): Renewal | null {
    const open = this.#context.requests.get(item.request.id);
    const held = open?.held ?? null;
    return open === undefined || held === null || item.cookie?.id !== held.id ? null : { item, open, held };
  }

  #answer({ item, open, held }: Renewal, found: Rows | Error | null, startedAt: Instant): RenewAnswer {
    if (found === null) return { state: "unknown" };
    if (found instanceof Error) return { state: "unknown", cause: found };
    const revoked = found.find((row) => row?.details.revoked !== undefined)?.details.revoked;
    if (revoked !== undefined) return { state: "lost", reason: "revoked", detail: revoked };
    if (found.some((row) => row?.revision !== held.revision)) return { state: "lost", reason: "gone" };
    if (open.lease === null) return { state: "unknown" };
    const validMs = this.#context.leases.validMs(open.lease, startedAt, item.ttlMs, item.request.graceMs);
    return validMs > 0 ? { state: "renewed", validMs } : { state: "unknown" };
  }

  /** Updates records that changed and reads the others. The rows of each, or its own error, by id. */
  async #updateAll(renewals: readonly Renewal[], io: CallSignal): Promise<Map<string, Rows | Error>> {
    const results = new Map<string, Rows | Error>();
    const collect = (one: Renewal, rows: Promise<Rows>): Promise<void> =>
      rows.then(
        (found) => void results.set(one.held.id, found),
        (error: unknown) => void results.set(one.held.id, etcdError(error, "renew the lease")),
      );
    const changed = renewals.filter((one) => isTooShort(one) || detailsFor(one) !== one.held.details);
    const unchanged = renewals.filter((one) => !changed.includes(one));
    await Promise.all([
      ...changed.map((one) => collect(one, this.#update(one, io))),
      ...batchesOf(unchanged).flatMap((batch) => {
        const requests = batch.map(({ item }) => item.request);
        const readers = this.#read(requests, io);
        return batch.map((one, at) =>
          collect(
            one,
            readers.then((all) => all[at]?.() ?? []),
          ),
        );
      }),
    ]);
    return results;
  }

  /** Writes details and lease, unless somebody else has written since. Returns the rows afterwards. */
  async #update(one: Renewal, io: CallSignal): Promise<Rows> {
    const { client, keys, leases } = this.#context;
    const { item, open, held } = one;
    const { request, ttlMs } = item;
    const details = detailsFor(one);
    const moves = isTooShort(one);
    const current = moves ? null : open.lease;
    const lease = current ?? (await leases.get(secondsFor(ttlMs, request.graceMs), io));
    const own = keys.ofRequest(request);
    const read = own.map((key): LooseOp => ({ range: { key } }));
    const written = await client
      .txn(
        {
          compare: isAsWritten(own, held),
          success: [...putAll(own, details, lease.id), ...read],
          failure: read,
        },
        io,
      )
      .catch((error: unknown) => {
        // etcd is full. If only the details change, the lease is as good without them.
        if (moves || !isFull(error)) throw error;
        return null;
      });
    if (written === null) return this.#readOne(request, io);
    const rows = written.answers
      .slice(written.succeeded ? own.length : 0)
      .map((answer) => rowsOf(answer, keys)[0]);
    if (written.succeeded) {
      open.lease = lease;
      held.details = details;
    }
    held.modRevisions = rows.map((row) => row?.modRevision ?? 0);
    return rows;
  }

  async #readOne(request: Request, io: CallSignal): Promise<Rows> {
    const [read] = await this.#read([request], io);
    return read?.() ?? [];
  }

  /**
   * Reads the queue keys of each request. The returned functions parse them; one of a damaged record throws.
   */
  async #read(requests: readonly Request[], io: CallSignal): Promise<(() => Rows)[]> {
    const { client, keys } = this.#context;
    const success = requests.flatMap((request) => keys.ofRequest(request).map((key) => ({ range: { key } })));
    const { answers } = await client.txn({ success }, io);
    let at = 0;
    return requests.map((request) => {
      const own = answers.slice(at, (at += request.keys.length));
      return () => own.map((answer) => rowsOf(answer, keys)[0]);
    });
  }

  async owns(request: Request, cookie: Held | null | undefined, io: CallSignal): Promise<boolean> {
    const held = this.#context.requests.get(request.id)?.held ?? null;
    if (held === null || cookie?.id !== request.id) return false;
    const rows = await this.#readOne(request, io);
    return rows.every((row) => row?.revision === held.revision && row.details.revoked === undefined);
  }

  /** Writes nothing if the request does not hold. */
  async note(request: Request, note: Note, io: CallSignal): Promise<void> {
    const open = this.#context.requests.get(request.id);
    const held = open?.held ?? null;
    if (open === undefined || held === null) return;
    const { client, keys } = this.#context;
    const own = keys.ofRequest(request);
    for (let tries = 0; tries < NOTE_TRIES; tries += 1) {
      const { waitingFor: _old, ...rest } = held.details;
      const details: Details = note === null ? rest : { ...rest, waitingFor: note.waitingFor };
      const success = putAll(own, details, open.lease?.id ?? 0);
      const { succeeded, header } = await client.txn({ compare: isAsWritten(own, held), success }, io);
      if (succeeded) {
        held.details = details;
        held.modRevisions = own.map(() => header?.revision ?? 0);
        return;
      }
      const rows = await this.#readOne(request, io);
      if (rows.some((row) => row?.revision !== held.revision || row.details.revoked !== undefined)) return;
      held.modRevisions = rows.map((row) => row?.modRevision ?? 0);
    }
    throw new Error("others keep writing its record");
  }

  /**
   * Deletes the keys of a request, and what a late message of it could create. True if it held all of them.
   */
  async remove(open: OpenRequest, held: Held | null, io: CallSignal): Promise<boolean> {
    const { keys, system, requests, leases, storeId } = this.#context;
    const { request } = open;
    const own = keys.ofRequest(request);
    const deleted = [...own];
    // A kept record stays until its end, unless its grant was never reported.
    const { minHold } = open;
    const isOver = minHold === null ? open.minHoldLease !== null : minHold.endsAtMs <= system.monoMs();
    if (isOver) deleted.push(...keys.keptOfRequest(request));
    if (open.hasNote) deleted.push(keys.inbox(storeId).key + request.id);
    const isOurs = own.map((key) => wasCreatedAt(key, held?.revision ?? 0));
    const unanswered = [...open.unanswered.keys()].filter((lease) => !lease.isGone);
    const remove = (): Promise<boolean> =>
      this.#deleteWithTombstones(request.id, isOurs, deleted, unanswered, io);
    let hasRepeated = false;
    const wasOurs = await remove().catch((error: unknown) => {
      // The answer was lost with a leader or a member, and the caller still waits. Deleting twice is
      // harmless.
      if (!(error instanceof UnansweredCall || isDisconnected(error)) || io.signal.aborted) throw error;
      hasRepeated = true;
      return remove();
    });
    requests.forget(open);
    // The first of two may have deleted them. While the lease lives, only an operator could, who leaves a
    // note.
    const hasLease = open.lease !== null && leases.leftMs(open.lease, system.now()) > 0;
    return held !== null && (wasOurs || (hasRepeated && hasLease && !open.hasNote));
  }

  /** `unanswered`: leases of messages that may still arrive. Each gets a tombstone that stops its message. */
  async #deleteWithTombstones(
    id: string,
    isOurs: readonly LooseCompare[],
    deleted: readonly string[],
    unanswered: readonly EtcdLease[],
    io: CallSignal,
  ): Promise<boolean> {
    const { client, keys, system, leases } = this.#context;
    const deletes = deleted.map((key): LooseOp => ({ delete: { key } }));
    const tombstones = unanswered.map((lease) => ({
      put: { key: keys.tombstone(id, lease.id), value: "{}", lease: lease.id },
    }));
    try {
      const all = [...deletes, ...tombstones];
      const { succeeded } = await client.txn({ compare: isOurs, success: all, failure: all }, io);
      for (const lease of unanswered) lease.tombstones += 1;
      return succeeded;
    } catch (error) {
      if (tombstones.length === 0) throw error;
      // etcd is full. The keys are deleted all the same, but the request has not ended without its
      // tombstones.
      if (isFull(error)) await client.txn({ compare: isOurs, success: deletes, failure: deletes }, io);
      if (!isLeaseGone(error)) throw error;
    }
    // One of the leases has expired, and its messages can do nothing any more. Find out which one it is.
    const since = system.now();
    await Promise.all(unanswered.map((lease) => leases.keepAlive(lease, since, io)));
    const alive = unanswered.filter((lease) => !lease.isGone);
    return this.#deleteWithTombstones(id, isOurs, deleted, alive, io);
  }
}

function isAsWritten(own: readonly string[], { modRevisions }: Held): LooseCompare[] {
  return own.map((key, at) => wasModifiedAt(key, modRevisions[at] ?? 0));
}

function putAll(own: readonly string[], details: Details, lease: number): LooseOp[] {
  const value = JSON.stringify(details);
  return own.map((key) => ({ put: { key, value, lease } }));
}

/** Groups of at most KEYS_PER_READ keys. */
function batchesOf(renewals: readonly Renewal[]): Renewal[][] {
  const batches: Renewal[][] = [];
  let size = KEYS_PER_READ;
  for (const one of renewals) {
    const count = one.item.request.keys.length;
    if (size + count > KEYS_PER_READ) {
      batches.push([]);
      size = 0;
    }
    batches.at(-1)?.push(one);
    size += count;
  }
  return batches;
}

function isTooShort({ item, open: { lease } }: Renewal): boolean {
  return (
    lease === null || lease.isGone || lease.lifeMs < secondsFor(item.ttlMs, item.request.graceMs) * 1_000
  );
}

/** The details as they should be now; the same object if nothing has changed. */
function detailsFor({ item: { label, lastFences }, held: { details, revision } }: Renewal): Details {
  // Several keys were created at one revision, so they have one fence.
  const [used] = lastFences;
  const isHandedOff = used !== undefined && String(used) !== (details.used ?? String(fenceOf(revision)));
  if (!isHandedOff && label === details.label) return details;
  return { ...details, label, ...(isHandedOff ? { used: String(used) } : {}) };
}
