// One attempt: take a place in line, or find the one that was taken, and see whether it is our turn.
//
// 1. An id that has ended changes nothing. One that held under a session which is gone has lost its grant for ever.
// 2. No place yet: make one, in one step for all keys (P9), and read the line behind it on the same connection. That the
//    leader made the place proves that the session was alive then, which is what the grant's window counts on.
// 3. A place whose making was never answered is searched for, by id and session, before another one is made (P8).
// 4. A place from before, and nobody has told us of a change: ask the leader (sync), which also answers for the session, and
//    see whether what stood in our way still does.
// 5. A place from before, and something has left: ask the leader, which answers for the session, and read the line.
// 6. Not our turn: watch what stands in the way. If that is gone by then, go on at 5. What stands there for long is asked of the leader
//    now and then: a server that shows what the leader does not have is left.

import type { AttemptAnswer, Io, Request } from "../../core/store.ts";
import type { Claim, Place } from "./claims.ts";
import { type Desk, orElse, quietly } from "./desk.ts";
import { tooManyKeysError } from "./errors.ts";
import { POLL_MS } from "./guarantees.ts";
import type { Kept } from "./kept.ts";
import { before, fits, type Line, toWatch } from "./line.ts";
import type { Looks } from "./looks.ts";
import { Misled, misled } from "./misled.ts";
import type { Entry } from "./names.ts";
import type { Places } from "./places.ts";
import type { Link } from "./port.ts";
import { FENCE_ROOM, fenceOf, readRecord } from "./record.ts";
import { SingleFile } from "./single-file.ts";
import { RequestTooLarge } from "./wire/errors.ts";
import { exists, getChildren, getData } from "./wire/ops.ts";

type Answer = AttemptAnswer<null>;

const ENDED: Answer = { ended: true };
/** Each look further means that somebody before us has left meanwhile. */
const LOOKS = 20;
const SOON_MS = 10;
/** Who holds is not read again within this time: core asks a second time as soon as it listens. */
const JUST_LOOKED_MS = 500;

/** A write that changes nothing, and whether the leader had all of these paths when it came to it. */
interface Barrier {
  readonly paths: readonly string[];
  readonly asked: Promise<boolean>;
}

export class Attempts {
  readonly #desk: Desk;
  readonly #kept: Kept;
  readonly #looks: Looks;
  readonly #places: Places;
  readonly #longestMs: () => number;
  readonly #underWay = new SingleFile<Answer>();

  constructor(desk: Desk, places: Places, kept: Kept, looks: Looks, longestMs: () => number) {
    this.#desk = desk;
    this.#places = places;
    this.#kept = kept;
    this.#looks = looks;
    this.#longestMs = longestMs;
  }

  attempt(request: Request, io: Io): Promise<Answer> {
    return this.#underWay.run(request.id, () =>
      this.#attempt(request, io).catch((error: unknown) => {
        if (error instanceof RequestTooLarge) throw tooManyKeysError(request.keys, error);
        if (!(error instanceof Misled)) throw error;
        // Once more, at the next server.
        return this.#attempt(request, io);
      }),
    );
  }

  async #attempt(request: Request, io: Io): Promise<Answer> {
    const { claims } = this.#desk;
    if (this.#desk.hasEnded(request.id)) return ENDED;
    const link = this.#desk.port.link ?? (await this.#desk.link(io));
    await claims.get(request.id)?.making?.catch(() => {});
    if (this.#desk.hasEnded(request.id)) return ENDED;
    const claim = claims.get(request.id);
    if (claim === undefined) return this.#first(link, request);
    if (claim.session !== link.sessionId) {
      claims.forget(claim);
      return claim.granted ? this.#over(request) : this.#first(link, request);
    }
    if (claim.places.length > 0) return this.#again(link, claim, request);
    return this.#made(link, claim, request, () => this.#places.findOrMake(link, claim, request));
  }

  async #first(link: Link, request: Request): Promise<Answer> {
    // Who will not wait need not disturb the line: it looks first.
    const refused = request.queue ? null : await this.#peek(link, request);
    if (refused !== null) return refused;
    const claim = this.#desk.begin(link, request);
    return this.#made(link, claim, request, () => this.#places.make(link, claim, request));
  }

  /** Whatever made or found the places, the leader has answered for it. */
  async #made(
    link: Link,
    claim: Claim,
    request: Request,
    make: () => Promise<string[][] | null>,
  ): Promise<Answer> {
    const lists = await make();
    if (lists === null) return this.#over(request, claim);
    return this.#judge(link, claim, request, lists);
  }

  /** Says no only of what it saw behind a barrier: a release that was acknowledged before must not be missed. */
  async #peek(link: Link, request: Request, barrier?: Barrier): Promise<Answer | null> {
    const asked = barrier?.asked ?? this.#desk.sync(link);
    const lists = await this.#desk.lists(link, request.keys);
    const there = await asked;
    const { lines } = await this.#kept.swept(link, request.keys, lists);
    const own: Entry = { ...request, keys: request.keys.length, name: "", session: "", seq: 0, kept: false };
    const blocked = lines.findIndex(({ entries }) => !fits(entries, own));
    if (blocked === -1) return null;
    const [key, line] = [request.keys[blocked] as string, lines[blocked] as Line];
    const inTheWay = toWatch(line.entries, own).map(({ name }) => `${this.#desk.paths.key(key)}/${name}`);
    if (barrier === undefined)
      return this.#peek(link, request, { paths: inTheWay, asked: this.#desk.barrier(link, inTheWay) });
    if (!there && barrier.paths.every((path) => inTheWay.includes(path))) throw misled(link);
    this.#desk.end(request.id);
    const holders = await this.#looks.holding(link, key, line);
    return { busy: { holders: holders.map(({ row }) => this.#looks.info(row)), againMs: POLL_MS } };
  }

  async #again(link: Link, claim: Claim, request: Request): Promise<Answer> {
    if (!claim.granted && !claim.stirred && claim.watching.length > 0) {
      const busy = await this.#glance(link, claim);
      if (busy !== null) return busy;
    }
    const synced = quietly(this.#desk.sync(link));
    const own = Promise.all(claim.places.map(({ path }) => orElse(link.send(getData(path)), null)));
    const lists = quietly(this.#desk.lists(link, request.keys));
    const contents = await own;
    if (contents.some((content) => content === null || readRecord(content.data).revoked !== undefined)) {
      await this.#desk.leave(link, claim);
      return this.#over(request);
    }
    await synced;
    return this.#judge(link, claim, request, await lists);
  }

  #busy(claim: Claim, againMs: number): Answer {
    return { busy: { holders: claim.holders.map(({ row }) => this.#looks.info(row)), againMs } };
  }

  #validMs(request: Request): number {
    return Math.min(request.ttlMs, this.#longestMs());
  }

  /** Busy, if all that stood in our way still does: a heartbeat costs the same however long the line is. */
  async #glance(link: Link, claim: Claim): Promise<Answer | null> {
    const atMs = this.#desk.system.monoMs();
    // By then a place that nobody keeps alive is gone.
    const doubted = atMs - claim.vouchedAtMs >= this.#desk.port.timeoutMs;
    const vouched = doubted ? this.#desk.barrier(link, claim.watching) : this.#desk.sync(link);
    const known = atMs - claim.lookedAtMs < JUST_LOOKED_MS;
    const [there, holders] = await Promise.all([
      Promise.all(claim.watching.map((path) => orElse(link.send(exists(path)), null))),
      known ? claim.holders : this.#refreshed(link, claim),
    ]);
    const agreed = await vouched;
    if (doubted) claim.vouchedAtMs = atMs;
    if (claim.stirred || there.includes(null) || holders === null) return null;
    if (!agreed) throw misled(link);
    if (holders.some(({ row }) => row.entry.kept)) return null;
    claim.holders = holders;
    return this.#busy(claim, POLL_MS);
  }

  /** Those who held, as they are now, or null when one of them is gone. */
  async #refreshed(link: Link, claim: Claim): Promise<Claim["holders"] | null> {
    const contents = await Promise.all(
      claim.holders.map(({ path }) => orElse(link.send(getData(path)), null)),
    );
    const holders = claim.holders.flatMap(({ path, row }, at) => {
      const content = contents[at];
      if (content === null || content === undefined) return [];
      return { path, row: { entry: row.entry, stat: content.stat, record: readRecord(content.data) } };
    });
    return holders.length < claim.holders.length ? null : holders;
  }

  async #judge(link: Link, claim: Claim, request: Request, lists: string[][]): Promise<Answer> {
    let names = lists;
    for (let look = 1; ; look += 1) {
      const { lines, keptMs } = await this.#kept.swept(link, request.keys, names);
      const ahead = claim.places.map(({ entry }, at) => before(lines[at] as Line, entry.name));
      if (ahead.includes(null)) {
        // One of several is gone. The others would stay for as long as the session.
        await this.#desk.leave(link, claim);
        return this.#over(request);
      }
      const places = claim.places.map((place, at) => ({ place, ahead: ahead[at] as readonly Entry[] }));
      const blocked = places.filter(({ place, ahead: some }) => !fits(some, place.entry));
      if (blocked.length === 0) return this.#grant(link, claim, request);
      const refused = await this.#refused(link, claim, request);
      if (refused !== null) return refused;
      const first = (blocked[0] as (typeof blocked)[number]).place.key;
      const line = lines[request.keys.indexOf(first)] as Line;
      const holding = quietly(this.#looks.holding(link, first, line));
      const armed = await this.#arm(link, claim, blocked);
      claim.holders = await holding;
      claim.lookedAtMs = this.#desk.system.monoMs();
      if (armed || look === LOOKS) return this.#busy(claim, armed ? Math.min(POLL_MS, keptMs) : SOON_MS);
      names = await this.#desk.lists(link, request.keys);
    }
  }

  /** Who may not wait leaves at once. */
  async #refused(link: Link, claim: Claim, request: Request): Promise<Answer | null> {
    if (request.queue) return null;
    this.#desk.end(request.id);
    await this.#desk.leave(link, claim);
    return { busy: { againMs: POLL_MS } };
  }

  async #grant(link: Link, claim: Claim, request: Request): Promise<Answer> {
    if (request.keepMs > 0 && !claim.kept) {
      if (this.#desk.hasEnded(request.id)) return ENDED;
      await this.#kept.keep(link, claim, request);
    }
    if (!claim.granted) claim.grantedAtMs = this.#desk.system.monoMs();
    claim.granted = true;
    claim.holders = [];
    this.#desk.claims.watch(claim, []);
    const alone = request.mode === "exclusive" && request.limit === 1;
    return {
      granted: {
        fences: claim.places.map(({ czxid }) => fenceOf(czxid)),
        fenceRoom: alone ? FENCE_ROOM : 0,
        validMs: this.#validMs(request),
        cookie: null,
      },
    };
  }

  /** Watches what stands in the way. False when some of it is gone already. */
  async #arm(
    link: Link,
    claim: Claim,
    blocked: readonly { readonly place: Place; readonly ahead: readonly Entry[] }[],
  ): Promise<boolean> {
    const paths = blocked.flatMap(({ place, ahead }) =>
      toWatch(ahead, place.entry).map(({ name }) => `${this.#desk.paths.key(place.key)}/${name}`),
    );
    claim.stirred = false;
    const fresh = paths.filter((path) => !claim.watching.includes(path));
    if (fresh.length > 0) claim.vouchedAtMs = this.#desk.system.monoMs();
    this.#desk.claims.watch(claim, paths);
    const there = await Promise.all(
      fresh.map((path) => {
        this.#desk.port.watch("child", path);
        return orElse(link.send(getChildren(path, true)), null);
      }),
    );
    return !there.includes(null) && !claim.stirred;
  }

  #over(request: Request, claim?: Claim): Answer {
    if (claim !== undefined) this.#desk.claims.forget(claim);
    this.#desk.end(request.id);
    return ENDED;
  }
}
