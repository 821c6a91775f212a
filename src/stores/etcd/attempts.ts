// One attempt, step by step:
// 1. Nobody in the way: one transaction creates the name of this id. It holds.
// 2. Else, with `order=fifo`, another one puts it at the end of the line, on a short lease that its heartbeats renew.
// 3. Whoever has a place reads, linearizably, whether anybody is before it, and watches that one and no other.
// 4. When it is its turn it holds, and moves to a lease of the full length before it says so.

import type { AttemptAnswer, Busy, HolderInfo, Io } from "../../core/store.ts";
import type { Instant } from "../../core/system.ts";
import { toBusy } from "../shared/busy.ts";
import type { Claim, Held } from "./claims.ts";
import type { Deps } from "./deps.ts";
import { leaseIsGone } from "./errors.ts";
import { HEARTBEAT_MS } from "./guarantees.ts";
import type { Holding } from "./holding.ts";
import { forgetKeep, keep, prepareKeep } from "./keep.ts";
import type { Standing } from "./line.ts";
import { FENCE_ROOM, fenceOf, newWords } from "./record.ts";
import { type Seat, Seats } from "./seats.ts";
import type { Waiting } from "./waiting.ts";

/** A lease or a place may turn out to be gone once in an attempt. */
const TRIES = 2;
/** A place is renewed when so much of its lease is left. */
const PLACE_SHARE = 0.75;

type Answer = AttemptAnswer<Held>;

export class Attempts {
  readonly #deps: Deps;
  readonly #seats: Seats;
  readonly #holding: Holding;
  readonly #waiting: Waiting;

  constructor(deps: Deps, holding: Holding, waiting: Waiting) {
    this.#deps = deps;
    this.#seats = new Seats(deps);
    this.#holding = holding;
    this.#waiting = waiting;
  }

  async run(claim: Claim, io: Io): Promise<Answer> {
    const startedAt = this.#deps.system.now();
    for (let tries = 1; ; tries += 1) {
      try {
        const answer = await this.#once(claim, startedAt, io);
        if (answer !== "displaced") return answer;
        claim.displaced();
        if (tries === TRIES) throw new Error("its place was taken away again and again");
      } catch (error) {
        if (!leaseIsGone(error) || tries === TRIES) throw error;
      }
    }
  }

  async #once(claim: Claim, startedAt: Instant, io: Io): Promise<Answer | "displaced"> {
    if (claim.revision === null) {
      const seat = await this.#seat(claim, startedAt, io);
      if ("ended" in seat) return this.#over(claim, seat, io);
      if ("refused" in seat) return this.#refused(claim, seat.refused, io);
      if (seat.placed.first) return this.#granted(claim, [], startedAt, io);
    }
    const [{ lines, revision }] = await Promise.all([
      this.#seats.look(claim, io),
      this.#fresh(claim, startedAt, io),
    ]);
    const missing = lines.filter(({ own }) => own === null).length;
    if (missing === lines.length) return "displaced";
    // Part of it was taken away by force, or all of it softly: it is of no use any more.
    if (missing > 0 || lines.some(({ own }) => own?.words.revoked !== undefined)) {
      return this.#over(claim, { ended: true }, io);
    }
    const behind = lines.find(({ before }) => before.length > 0);
    return behind === undefined
      ? this.#granted(claim, lines, startedAt, io)
      : this.#behind(claim, lines, behind, revision, io);
  }

  async #seat(claim: Claim, startedAt: Instant, io: Io): Promise<Seat> {
    const [seat] = await Promise.all([
      this.#seats.takeFree(claim, startedAt, io),
      prepareKeep(claim, this.#deps, io),
    ]);
    const queues = claim.request.queue && this.#deps.order === "fifo";
    return "refused" in seat && queues ? this.#seats.enqueue(claim, io) : seat;
  }

  async #behind(
    claim: Claim,
    lines: readonly Standing[],
    behind: Standing,
    revision: number,
    io: Io,
  ): Promise<Answer> {
    const againMs = await this.#waiting.behind(claim, behind, revision, io);
    const holders = lines.flatMap(({ head }) => this.#waiting.shown(head));
    return busy(holders, againMs);
  }

  /** Whoever is refused without a place is over, or, where places are not kept, waits for anybody to leave. */
  async #refused(
    claim: Claim,
    { holders, revision }: { readonly holders: readonly HolderInfo[]; readonly revision: number },
    io: Io,
  ): Promise<Answer> {
    if (!claim.request.queue) return this.#over(claim, busy(holders), io);
    this.#waiting.forAnybody(claim, revision);
    return busy(holders);
  }

  /** Nobody will ask with this id again. Only where it has a place, or may yet get one, is there something to undo. */
  async #over(claim: Claim, answer: Answer, io: Io): Promise<Answer> {
    if (claim.over) return { ended: true };
    this.#deps.claims.end(claim.request);
    forgetKeep(claim, this.#deps, io);
    if (claim.mayHaveNames) await this.#holding.end(claim, null, io);
    else this.#deps.claims.forget(claim);
    return answer;
  }

  /** Renews the lease of a place in time for what may be granted now. */
  async #fresh({ lease, request }: Claim, startedAt: Instant, io: Io): Promise<void> {
    if (lease === null || lease.gone) return;
    const { ttlMs, graceMs } = request;
    const full = lease.lifeMs >= ttlMs + graceMs;
    const wantedMs = full ? ttlMs + graceMs : lease.lifeMs * PLACE_SHARE;
    const { leases } = this.#deps;
    if (leases.leftMs(lease, startedAt) < wantedMs) await leases.beat(lease, startedAt, io);
  }

  async #granted(
    claim: Claim,
    lines: readonly Standing[],
    startedAt: Instant,
    io: Io,
  ): Promise<Answer | "displaced"> {
    const { request, revision, lease } = claim;
    const { leases, system, proc } = this.#deps;
    if (claim.over) return { ended: true };
    if (revision === null || lease === null || lease.gone) return "displaced";
    const { keys, ttlMs, graceMs, mode, limit, keepMs, id } = request;
    if (keepMs > 0 && claim.kept === null) {
      claim.kept = await keep(claim, revision, this.#deps, io);
      if (claim.over) return { ended: true };
      if (claim.kept === null) return "displaced";
    }
    claim.watchNothing();
    let validMs = leases.validMs(lease, startedAt, ttlMs, graceMs);
    if (validMs <= 0) throw new Error("its lease is too old to be believed in");
    claim.held ??= {
      id,
      revision,
      words: newWords(request, proc, Math.round(system.wallMs())),
      modRevisions: keys.map((_key, at) => lines[at]?.own?.modRevision ?? revision),
    };
    const fence = fenceOf(revision);
    const fences = keys.map(() => fence);
    if (lease.lifeMs < ttlMs + graceMs) {
      const item = { request, cookie: claim.held, ttlMs, lastFences: fences, label: request.label };
      const [moved] = await this.#holding.renew([item], io);
      if (claim.over) return { ended: true };
      if (moved?.state === "lost")
        return moved.reason === "gone" ? "displaced" : this.#over(claim, { ended: true }, io);
      // Without an answer the grant is as long as the lease that it has; core renews a short one at once.
      if (moved?.state === "renewed") validMs = Math.max(validMs, moved.validMs);
    }
    return {
      granted: {
        fences,
        fenceRoom: mode === "exclusive" && limit === 1 ? FENCE_ROOM : 0,
        validMs,
        cookie: claim.held,
      },
    };
  }
}

function busy(holders: readonly HolderInfo[], againMs: number = HEARTBEAT_MS): { readonly busy: Busy } {
  return { busy: holders.length > 0 ? toBusy(holders, (holder) => holder, againMs) : { againMs } };
}
