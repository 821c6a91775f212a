// What happens to a place that was granted: it is renewed, moved to a lease of the right length, written to, checked and given up.
// Every write compares first, so that one which arrives late, or after somebody revoked the grant, changes nothing.

import type { Io, Note, RenewAnswer, RenewItem, Request } from "../../core/store.ts";
import type { Instant } from "../../core/system.ts";
import type { Claim, Held } from "./claims.ts";
import type { Deps } from "./deps.ts";
import { etcdError, isDropped, isFull, leaseIsGone } from "./errors.ts";
import { type EtcdLease, secondsFor } from "./leases.ts";
import { GivenUp } from "./member.ts";
import { createdAt, keptNames, ownNames, rowsOf } from "./line.ts";
import { EQUAL, type LooseOp, MODIFICATION } from "./messages.ts";
import type { EtcdPort, Patience } from "./port.ts";
import { fenceOf, type Row, type Words } from "./record.ts";

/** So many names are read in one transaction; a server takes 128 by default. */
const READ_AT_ONCE = 100;
const NOTE_TRIES = 3;

interface Renewing {
  readonly item: RenewItem<Held>;
  readonly claim: Claim;
  readonly held: Held;
}

export class Holding {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async renew(items: readonly RenewItem<Held>[], io: Io): Promise<RenewAnswer[]> {
    const startedAt = this.#deps.system.now();
    const renewing = items.map((item) => this.#held(item));
    const leases = new Set(renewing.flatMap((one) => one?.claim.lease ?? []));
    const beats = Promise.allSettled(
      [...leases].map((lease) => this.#deps.leases.beat(lease, startedAt, io)),
    );
    const rows = await this.#written(
      renewing.filter((one) => one !== null),
      io,
    );
    await beats;
    return renewing.map((one): RenewAnswer => {
      if (one === null) return { state: "lost", reason: "gone" };
      const found = rows.get(one.held.id);
      if (found === undefined) return { state: "unknown" };
      return this.#answer(one, found, startedAt);
    });
  }

  #answer(
    { item, claim, held }: Renewing,
    found: readonly (Row | undefined)[] | Error,
    startedAt: Instant,
  ): RenewAnswer {
    if (found instanceof Error) return { state: "unknown", cause: found };
    const revoked = found.find((row) => row?.words.revoked !== undefined)?.words.revoked;
    if (revoked !== undefined) return { state: "lost", reason: "revoked", detail: revoked };
    if (found.some((row) => row?.revision !== held.revision)) return { state: "lost", reason: "gone" };
    if (claim.lease === null) return { state: "unknown" };
    const { graceMs } = item.request;
    const validMs = this.#deps.leases.validMs(claim.lease, startedAt, item.ttlMs, graceMs);
    return validMs > 0 ? { state: "renewed", validMs } : { state: "unknown" };
  }

  /** Null when nothing is held under this id. */
  #held(item: RenewItem<Held>): Renewing | null {
    const claim = this.#deps.claims.get(item.request.id);
    const held = claim?.held ?? null;
    if (claim === undefined || held === null || item.cookie?.id !== held.id) return null;
    return { item, claim, held };
  }

  /** What stands under the names of each, after it was brought up to date; by id. A failure is told of whom it concerns. */
  async #written(
    renewing: readonly Renewing[],
    io: Patience,
  ): Promise<Map<string, readonly (Row | undefined)[] | Error>> {
    const results = new Map<string, readonly (Row | undefined)[] | Error>();
    const told = (one: Renewing, work: Promise<readonly (Row | undefined)[]>): Promise<void> =>
      work.then(
        (rows) => void results.set(one.held.id, rows),
        (error: unknown) => void results.set(one.held.id, etcdError(error, "renew the lease")),
      );
    const changed = renewing.filter((one) => this.#changes(one));
    const same = renewing.filter((one) => !changed.includes(one));
    await Promise.all([
      ...changed.map((one) => told(one, this.#update(one, io))),
      ...this.#batches(same).map(async (batch) => {
        const read = this.#read(
          batch.map(({ item }) => item.request),
          io,
        );
        await Promise.all(
          batch.map((one, at) =>
            told(
              one,
              read.then((readers) => readers[at]?.() ?? []),
            ),
          ),
        );
      }),
    ]);
    return results;
  }

  #batches(renewing: readonly Renewing[]): Renewing[][] {
    const batches: Renewing[][] = [];
    let size = READ_AT_ONCE;
    for (const one of renewing) {
      const count = one.item.request.keys.length;
      if (size + count > READ_AT_ONCE) {
        batches.push([]);
        size = 0;
      }
      batches.at(-1)?.push(one);
      size += count;
    }
    return batches;
  }

  #changes({ item, claim, held }: Renewing): boolean {
    return this.#tooShort(item, claim.lease) || wordsFor(item, held) !== held.words;
  }

  #tooShort({ ttlMs, request }: RenewItem<Held>, lease: EtcdLease | null): boolean {
    return lease === null || lease.gone || lease.lifeMs < secondsFor(ttlMs, request.graceMs) * 1_000;
  }

  /** Writes words and lease, if nobody else has written since. Gives what stands there now. */
  async #update(one: Renewing, io: Patience): Promise<(Row | undefined)[]> {
    const { port, names, leases } = this.#deps;
    const { item, claim, held } = one;
    const { request, ttlMs } = item;
    const words = wordsFor(item, held);
    const move = this.#tooShort(item, claim.lease);
    const seconds = secondsFor(ttlMs, request.graceMs);
    const lease = move || claim.lease === null ? await leases.get(seconds, io) : claim.lease;
    const own = ownNames(names, request);
    const value = JSON.stringify(words);
    const read = own.map((key): LooseOp => ({ range: { key } }));
    const wrote = await port
      .txn(
        {
          compare: own.map((key, at) => ({
            key,
            target: MODIFICATION,
            result: EQUAL,
            modRevision: held.modRevisions[at] ?? 0,
          })),
          success: [...own.map((key) => ({ put: { key, value, lease: lease.id } })), ...read],
          failure: read,
        },
        io,
      )
      .catch((error: unknown) => {
        // Nothing can be written. Where only words were to be written the lease is as good without them.
        if (move || !isFull(error)) throw error;
        return null;
      });
    if (wrote === null) return this.#readOne(request, io);
    const rows = wrote.answers
      .slice(wrote.succeeded ? own.length : 0)
      .map((answer) => rowsOf(answer, names)[0]);
    if (wrote.succeeded) {
      claim.lease = lease;
      held.words = words;
    }
    held.modRevisions = rows.map((row) => row?.modRevision ?? 0);
    return rows;
  }

  async #readOne(request: Request, io: Patience): Promise<(Row | undefined)[]> {
    const [read] = await this.#read([request], io);
    return read?.() ?? [];
  }

  /** Readers of what stands under the own names of each request. One of a damaged record throws. */
  async #read(requests: readonly Request[], io: Patience): Promise<(() => (Row | undefined)[])[]> {
    const { port, names } = this.#deps;
    const success = requests.flatMap((request) =>
      ownNames(names, request).map((key) => ({ range: { key } })),
    );
    const { answers } = await port.txn({ success }, io);
    let at = 0;
    return requests.map(({ keys }) => {
      const own = answers.slice(at, (at += keys.length));
      return () => own.map((answer) => rowsOf(answer, names)[0]);
    });
  }

  async owns(request: Request, cookie: Held | null | undefined, io: Patience): Promise<boolean> {
    const held = this.#deps.claims.get(request.id)?.held ?? null;
    if (held === null || cookie?.id !== request.id) return false;
    const rows = await this.#readOne(request, io);
    return rows.every((row) => row?.revision === held.revision && row.words.revoked === undefined);
  }

  /** A note of one who does not hold is written nowhere. */
  async note(request: Request, note: Note, io: Patience): Promise<void> {
    const claim = this.#deps.claims.get(request.id);
    const held = claim?.held ?? null;
    if (claim === undefined || held === null) return;
    for (let tries = 0; tries < NOTE_TRIES; tries += 1) {
      const { waitingFor: _old, ...rest } = held.words;
      const words: Words = note === null ? rest : { ...rest, waitingFor: note.waitingFor };
      if (await this.#rewrite(claim, held, words, io)) return;
      const rows = await this.#readOne(request, io);
      if (rows.some((row) => row?.revision !== held.revision || row.words.revoked !== undefined)) return;
      held.modRevisions = rows.map((row) => row?.modRevision ?? 0);
    }
    throw new Error("its record is being written by others");
  }

  async #rewrite(claim: Claim, held: Held, words: Words, io: Patience): Promise<boolean> {
    const { port, names } = this.#deps;
    const own = ownNames(names, claim.request);
    const lease = claim.lease?.id ?? 0;
    const value = JSON.stringify(words);
    const { succeeded, header } = await port.txn(
      {
        compare: own.map((key, at) => ({
          key,
          target: MODIFICATION,
          result: EQUAL,
          modRevision: held.modRevisions[at] ?? 0,
        })),
        success: own.map((key) => ({ put: { key, value, lease } })),
      },
      io,
    );
    if (!succeeded) return false;
    held.words = words;
    held.modRevisions = own.map(() => header?.revision ?? 0);
    return true;
  }

  /** Gives up what an id has: its names, and what a late message of it could create. True if it held all of it. */
  async end(claim: Claim, held: Held | null, io: Patience): Promise<boolean> {
    const { names, system, claims, leases } = this.#deps;
    const { request } = claim;
    const own = ownNames(names, request);
    const gone: LooseOp[] = own.map((key) => ({ delete: { key } }));
    // What nobody was told of need not be kept.
    const over = claim.kept === null ? claim.keepLease !== null : claim.kept.overAtMs <= system.monoMs();
    if (over) gone.push(...keptNames(names, request).map((key) => ({ delete: { key } })));
    if (claim.told) gone.push({ delete: { key: names.inbox(this.#deps.proc).key + request.id } });
    const mine = own.map((key) => createdAt(key, held?.revision ?? 0));
    const late = [...claim.unanswered.keys()].filter((lease) => !lease.gone);
    const bury = (): Promise<boolean> => this.#bury(claim, mine, gone, late, io);
    let lostReply = false;
    const released = await bury().catch((error: unknown) => {
      // Lost with a leader or a member, and the caller still listens: to delete once more does no harm.
      if (!(error instanceof GivenUp || isDropped(error)) || io.signal.aborted) throw error;
      lostReply = true;
      return bury();
    });
    claims.forget(claim);
    // The first of two may have deleted it; while its lease lives nobody else does, but an operator who tells.
    const ours =
      lostReply && !claim.told && claim.lease !== null && leases.leftMs(claim.lease, system.now()) > 0;
    return held !== null && (released || ours);
  }

  async #bury(
    claim: Claim,
    mine: NonNullable<Parameters<EtcdPort["txn"]>[0]["compare"]>,
    gone: readonly LooseOp[],
    late: readonly EtcdLease[],
    io: Patience,
  ): Promise<boolean> {
    const { port, names, system, leases } = this.#deps;
    const tombs = late.map((lease) => ({
      put: { key: names.tomb(claim.request.id, lease.id), value: "{}", lease: lease.id },
    }));
    try {
      const all = [...gone, ...tombs];
      const { succeeded } = await port.txn({ compare: mine, success: all, failure: all }, io);
      for (const lease of late) lease.tombs += 1;
      return succeeded;
    } catch (error) {
      if (tombs.length === 0) throw error;
      // When nothing can be written the place is given up all the same; the marks are owed, so it is not over.
      if (isFull(error)) await port.txn({ compare: mine, success: gone, failure: gone }, io);
      if (!leaseIsGone(error)) throw error;
    }
    // One of the leases has ended, and with it every message that carries it: find out which.
    const since = system.now();
    await Promise.all(late.map((lease) => leases.beat(lease, since, io)));
    return this.#bury(
      claim,
      mine,
      gone,
      late.filter((lease) => !lease.gone),
      io,
    );
  }
}

/** The words as they ought to be now; the very same object where nothing has changed. */
function wordsFor({ label, lastFences }: RenewItem<Held>, { words, revision }: Held): Words {
  // Several keys were created at one revision, so they have one fence.
  const [used] = lastFences;
  const moved = used !== undefined && String(used) !== (words.used ?? String(fenceOf(revision)));
  if (!moved && label === words.label) return words;
  return { ...words, label, ...(moved ? { used: String(used) } : {}) };
}
