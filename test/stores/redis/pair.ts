// One random history, played on opened stores and on the plain rules of reference.ts.

import type { OpenStore, RenewAnswer, Request } from "../../../src/core/store.ts";
import type { Op } from "../../support/histories.ts";
import { io, request } from "../../support/store-calls.ts";
import { RedisReference, type Rules } from "./reference.ts";

export const START_US = 1_800_000_000_000_000;
const KEYS = ["x", "y", "z"] as const;

/** The server, real or simulated: its clock is moved by hand. */
export interface RedisSide {
  setClock(us: number): Promise<void>;
  /** All that was published since the clock was last set. */
  pushed(): Promise<readonly string[]>;
  /** Whether the server still has the place of this id in the queue. */
  hasPlace(namespace: string, key: string, id: string): Promise<boolean>;
}

interface Known {
  request: Request;
  readonly proc: 0 | 1;
  fences: readonly bigint[];
}

export class RedisPair {
  readonly #side: RedisSide;
  readonly #reference: RedisReference;
  readonly #stores: readonly OpenStore[];
  readonly #known: Known[] = [];

  constructor(side: RedisSide, stores: readonly OpenStore[], namespace: string, rules?: Rules) {
    this.#side = side;
    this.#stores = stores;
    this.#reference = new RedisReference((key, id) => side.hasPlace(namespace, key, id), rules);
    this.#reference.nowUs = START_US;
  }

  /** What each of them answered and published, and what the keys look like then. */
  async play(one: Op): Promise<{ readonly ours: unknown; readonly rules: unknown }> {
    await this.#side.setClock(this.#reference.nowUs);
    this.#reference.pushed = [];
    const [ours, rules] = await this.#ask(one);
    const pushed = await this.#side.pushed();
    const looks = await Promise.all(KEYS.map((name) => (this.#stores[0] as OpenStore).inspect(name, io)));
    const expected = KEYS.map((name) => this.#reference.inspect("a", name));
    return {
      ours: plain({ one, answer: ours, pushed, looks }),
      rules: plain({ one, answer: rules, pushed: this.#reference.pushed, looks: expected }),
    };
  }

  async #ask(one: Op): Promise<readonly [unknown, unknown]> {
    const reference = this.#reference;
    if (one.op === "pass") {
      reference.nowUs += one.us;
      await this.#side.setClock(this.#reference.nowUs);
      return [null, null];
    }
    if (one.op === "new") {
      // Core refuses permits of a read lock, and more permits than the limit.
      const mode = (one.wish.limit ?? 1) > 1 ? "exclusive" : (one.wish.mode ?? "exclusive");
      const permits = Math.min(one.wish.permits ?? 1, one.wish.limit ?? 1);
      this.#known.push({
        request: request(one.keys, { ...one.wish, mode, permits, seq: 0 }),
        proc: one.proc,
        fences: [],
      });
      return this.#attempt(this.#known.at(-1) as Known);
    }
    const known = one.which === null ? undefined : this.#known[one.which % Math.max(1, this.#known.length)];
    if (one.op === "revoke") {
      const fence = known?.fences[0];
      const options = { reason: "because", force: one.force, ...(fence === undefined ? {} : { fence }) };
      const store = this.#stores[0] as OpenStore;
      return [await store.revoke(one.key, options, io), reference.revoke("a", one.key, options)];
    }
    return known === undefined ? [null, null] : this.#askAbout(known, one);
  }

  async #askAbout(
    known: Known,
    one: Exclude<Op, { op: "new" | "pass" | "revoke" }>,
  ): Promise<readonly [unknown, unknown]> {
    const { request: asked } = known;
    const [store, proc, reference] = [
      this.#stores[known.proc] as OpenStore,
      String(known.proc),
      this.#reference,
    ];
    if (one.op === "again") return this.#attempt(known);
    if (one.op === "abandon") {
      reference.abandon(proc, asked);
      return [await store.abandon([asked], io), []];
    }
    if (one.op === "owns") return [await store.owns(asked, null, io), reference.owns(proc, asked)];
    if (one.op === "note") {
      const note = one.waitingFor === null ? null : { waitingFor: one.waitingFor };
      return [await store.note(asked, null, note, io), reference.note(proc, asked, one.waitingFor)];
    }
    if (known.fences.length === 0) return [null, null];
    const { handedOn } = one as Extract<Op, { op: "release" }>;
    const lastFences = known.fences.map((fence) => fence + BigInt(handedOn));
    const used = lastFences.map(Number);
    if (one.op === "release")
      return [await store.release(asked, null, { lastFences }, io), reference.release(proc, asked, used)];
    const item = { request: asked, cookie: null, ttlMs: asked.ttlMs, lastFences, label: asked.label };
    // The rules know nothing of the server's clock.
    const { clocks: _clocks, ...answer } = (await store.renew([item], io))[0] as RenewAnswer;
    return [answer, reference.renew(proc, asked, used)];
  }

  async #attempt(known: Known): Promise<readonly [unknown, unknown]> {
    known.request = { ...known.request, seq: known.request.seq + 1 };
    const before = structuredClone(known.request);
    // Asked first: the script may take out a place that was silent for too long.
    let ours: Awaited<ReturnType<OpenStore["attempt"]>> | null = null;
    const asked = async (): Promise<number> => {
      ours = await (this.#stores[known.proc] as OpenStore).attempt(before, io);
      return "busy" in ours ? ours.busy.againMs : 0;
    };
    const rules = await this.#reference.attempt(String(known.proc), before, asked);
    ours ??= await (this.#stores[known.proc] as OpenStore).attempt(before, io);
    if ("granted" in ours) known.fences = ours.granted.fences;
    if ("busy" in ours) {
      const { position: _position, ...busy } = ours.busy;
      return [{ busy }, rules];
    }
    return [ours, rules];
  }
}

/** Comparable: fractions of a microsecond are lost on the way through text. */
function plain(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (_name, part: unknown) => {
      if (typeof part === "bigint") return String(part);
      return typeof part === "number" ? Math.round(part * 100) / 100 : part;
    }),
  );
}
