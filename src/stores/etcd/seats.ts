// Getting a place: at once if nobody is in the way, else at the end of the line; and seeing whether it is one's turn. Each
// step is one transaction. A place that was created by a message whose answer was lost is found by its id.

import type { HolderInfo, Request } from "../../core/store.ts";
import type { Instant } from "../../core/system.ts";
import type { Claim } from "./claims.ts";
import type { Deps } from "./deps.ts";
import { isNoMember, leaseIsGone, wasRefused } from "./errors.ts";
import { type EtcdLease, secondsFor } from "./leases.ts";
import {
  absent,
  free,
  isSemaphore,
  nothingNewer,
  ownNames,
  hasRoom,
  readStanding,
  reasons,
  rowsOf,
  type Standing,
  standing,
} from "./line.ts";
import type { LooseCompare, TxnAnswer } from "./messages.ts";
import type { Patience } from "./port.ts";
import { newWords, readRow, type Row } from "./record.ts";
import { PLACE_SECONDS } from "./guarantees.ts";
import { holderInfo } from "./sight.ts";

/** How often permits are counted anew because somebody came in between. */
const PERMIT_TRIES = 5;

export type Seat =
  /** It has a place since `revision`; `first` when nobody can be before it. */
  | { readonly placed: { readonly revision: number; readonly first: boolean } }
  /** Not `certain` when somebody came in between and there may yet be room. */
  | {
      readonly refused: {
        readonly holders: readonly HolderInfo[];
        readonly revision: number;
        readonly certain: boolean;
      };
    }
  | { readonly ended: true };

export class Seats {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** A place only if nobody is in the way. */
  async takeFree(claim: Claim, startedAt: Instant, io: Patience): Promise<Seat> {
    const { leases } = this.#deps;
    const { ttlMs, graceMs } = claim.request;
    const lease = await leases.get(secondsFor(ttlMs, graceMs), io);
    // Where the lease is too old for a full ttl it is renewed at the same time.
    const old = leases.leftMs(lease, startedAt) < ttlMs + graceMs;
    const [seat] = await Promise.all([
      this.#takeFree(claim, lease, io),
      old ? leases.beat(lease, startedAt, io) : null,
    ]);
    return seat;
  }

  async #takeFree(claim: Claim, lease: EtcdLease, io: Patience): Promise<Seat> {
    const { names } = this.#deps;
    const { request } = claim;
    if (!isSemaphore(request)) return this.#create(claim, lease, free(names, request), true, io);
    for (let tries = 1; ; tries += 1) {
      const seat = await this.#takePermits(claim, lease, io);
      if (!("refused" in seat) || seat.refused.certain || tries === PERMIT_TRIES) return seat;
    }
  }

  /** Permits are added up here; the transaction then makes sure that nobody has come since. */
  async #takePermits(claim: Claim, lease: EtcdLease, io: Patience): Promise<Seat> {
    const { names } = this.#deps;
    const { request } = claim;
    const seen = await this.#members(request, io);
    const others = seen.rows.filter((row) => row.id !== request.id);
    const fits = seen.byKey.every((rows) => rows.every(isSemaphore) && hasRoom(rows, request));
    if (!fits && seen.rows.length === others.length) {
      return { refused: { holders: this.#shown(others), revision: seen.revision, certain: true } };
    }
    const since = request.keys.map((key) => nothingNewer(names.lock(key), seen.revision));
    return this.#create(claim, lease, since, true, io);
  }

  /** A place at the end of the line, on a short lease: one that dies while it waits holds nobody up for long. */
  async enqueue(claim: Claim, io: Patience): Promise<Seat> {
    const lease = await this.#deps.leases.get(PLACE_SECONDS, io);
    return this.#create(claim, lease, [], false, io);
  }

  async look(claim: Claim, io: Patience): Promise<{ readonly lines: Standing[]; readonly revision: number }> {
    const { port, names } = this.#deps;
    const { request } = claim;
    const since = claim.revision ?? 0;
    const answer = await port.txn({ success: standing(names, request, since) }, io);
    const lines = readStanding(names, request, since, answer.answers);
    return { lines, revision: answer.header?.revision ?? 0 };
  }

  async #create(
    claim: Claim,
    lease: EtcdLease,
    unless: readonly LooseCompare[],
    first: boolean,
    io: Patience,
  ): Promise<Seat> {
    const { port, names, system, proc, leases } = this.#deps;
    const { request } = claim;
    // It may have ended between two steps of one attempt.
    if (claim.over) return { ended: true };
    const own = ownNames(names, request);
    const value = JSON.stringify(newWords(request, proc, Math.round(system.wallMs())));
    const tomb = names.tomb(request.id, lease.id);
    // Where nobody may be there at all, its own names are not either.
    const alone = first && request.mode === "exclusive" && !isSemaphore(request);
    claim.sent(lease);
    let answer: TxnAnswer;
    try {
      answer = await port.txn(
        {
          compare: [...unless, ...(alone ? [] : own.map(absent)), absent(tomb)],
          success: own.map((key) => ({ put: { key, value, lease: lease.id } })),
          failure: [...reasons(names, request), { range: { key: tomb } }],
        },
        io,
      );
    } catch (error) {
      if (wasRefused(error) || isNoMember(error)) claim.answered(lease);
      if (leaseIsGone(error)) leases.forget(lease);
      throw error;
    }
    claim.answered(lease);
    const revision = answer.header?.revision ?? 0;
    if (!answer.succeeded) return this.#why(claim, answer, revision);
    claim.placed(revision, lease);
    return { placed: { revision, first } };
  }

  #why(claim: Claim, { answers }: TxnAnswer, revision: number): Seat {
    const { names } = this.#deps;
    const { request } = claim;
    if ((answers.at(-1)?.range?.kvs.length ?? 0) > 0) return { ended: true };
    const found = request.keys.map((_key, at) => rowsOf(answers[2 * at], names)[0]);
    const [own] = found;
    if (own !== undefined) {
      // An earlier message of this id came through: nobody else knows the id.
      claim.placed(own.revision, this.#deps.leases.byId(own.lease));
      return { placed: { revision: own.revision, first: false } };
    }
    const heads = request.keys.flatMap((_key, at) => rowsOf(answers[2 * at + 1], names));
    return { refused: { holders: this.#shown(heads), revision, certain: !isSemaphore(request) } };
  }

  /** Everybody at these locks. */
  async #members(
    request: Request,
    io: Patience,
  ): Promise<{ readonly rows: Row[]; readonly byKey: Row[][]; readonly revision: number }> {
    const { port, names } = this.#deps;
    const success = request.keys.map((key) => ({ range: names.lock(key) }));
    const { answers, header } = await port.txn({ success }, io);
    const byKey = answers.map((answer) => (answer.range?.kvs ?? []).map((kv) => readRow(kv, names)));
    return { rows: byKey.flat(), byKey, revision: header?.revision ?? 0 };
  }

  /** Who is in the way, as far as it is certain: one that waits for several keys may be first and yet hold none. */
  #shown(rows: readonly Row[]): HolderInfo[] {
    const nowMs = this.#deps.system.wallMs();
    return rows.filter((row) => row.words.keys === undefined).map((row) => holderInfo(row, nowMs, null));
  }
}
