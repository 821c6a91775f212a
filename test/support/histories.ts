// Random histories of requests, and what answers them: a store on a real or simulated server on one side, the rules of the ledger on the
// other.

import fc from "fast-check";
import type { OpenStore, RenewAnswer, Request } from "../../src/core/store.ts";
import { Reference } from "./reference-ledger.ts";
import { io, request } from "./store-calls.ts";

const START_US = 1_800_000_000_000_000;
const PROCS = ["a", "b"] as const;
const KEYS = ["x", "y", "z"] as const;

export type Op =
  | {
      readonly op: "new";
      readonly proc: 0 | 1;
      readonly keys: readonly string[];
      readonly wish: Partial<Request>;
    }
  | { readonly op: "again" | "abandon" | "owns"; readonly which: number }
  | { readonly op: "release" | "renew"; readonly which: number; readonly handedOn: number }
  | { readonly op: "note"; readonly which: number; readonly waitingFor: string | null }
  | { readonly op: "revoke"; readonly key: string; readonly which: number | null; readonly force: boolean }
  | { readonly op: "pass"; readonly us: number };

const which = fc.nat({ max: 30 });
const key: fc.Arbitrary<string> = fc.constantFrom(...KEYS);
export const wish: fc.Arbitrary<Partial<Request>> = fc.record({
  mode: fc.constantFrom("exclusive" as const, "exclusive" as const, "shared" as const),
  limit: fc.constantFrom(1, 1, 1, 3),
  ttlMs: fc.constantFrom(200, 300, 5_000, 30_000),
  keepMs: fc.constantFrom(0, 0, 0, 400),
  queue: fc.constantFrom(true, true, true, false),
  permits: fc.constantFrom(1, 2),
});
export const several: fc.Arbitrary<string[]> = fc.oneof(
  { weight: 4, arbitrary: key.map((one) => [one]) },
  { weight: 1, arbitrary: fc.subarray([...KEYS], { minLength: 2 }) },
);

export const ops = (
  keys: fc.Arbitrary<string[]>,
  wishes: fc.Arbitrary<Partial<Request>>,
): fc.Arbitrary<Op[]> => fc.array(opOf(keys, wishes), { minLength: 10, maxLength: 40, size: "max" });

const opOf = (keys: fc.Arbitrary<string[]>, wishes: fc.Arbitrary<Partial<Request>>): fc.Arbitrary<Op> =>
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        op: fc.constant("new" as const),
        proc: fc.constantFrom(0 as const, 1 as const),
        keys,
        wish: wishes,
      }),
    },
    {
      weight: 5,
      arbitrary: fc.record({
        op: fc.constantFrom("again" as const, "again" as const, "abandon" as const, "owns" as const),
        which,
      }),
    },
    {
      weight: 5,
      arbitrary: fc.record({
        op: fc.constantFrom("release" as const, "release" as const, "renew" as const),
        which,
        handedOn: fc.nat({ max: 50 }),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ op: fc.constant("note" as const), which, waitingFor: fc.option(key) }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        op: fc.constant("revoke" as const),
        key,
        which: fc.option(which),
        force: fc.boolean(),
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({
        op: fc.constant("pass" as const),
        us: fc.constantFrom(1, 777, 20_000, 120_000, 400_000, 1_200_000, 6_000_000),
      }),
    },
  );

interface Known {
  request: Request;
  readonly proc: 0 | 1;
  fences: readonly bigint[];
}

/** What the store runs on: its clock is moved by hand. */
export interface Side {
  setClock(us: number): Promise<void>;
  /** All that was pushed since the clock was last set, where that can be read. */
  pushed?(): Promise<readonly string[]>;
  /** See Reference. */
  readonly beatFirst?: boolean;
  /** How long a grant waits for a waiter; where it is not what most stores say. */
  readonly claimMs?: number;
}

/** Both sides of one history. */
export class Pair {
  readonly #reference: Reference;
  readonly #side: Side;
  readonly #stores: readonly OpenStore[];
  readonly #known: Known[] = [];

  constructor(side: Side, stores: readonly OpenStore[]) {
    this.#reference = new Reference(side);
    this.#side = side;
    this.#stores = stores;
    this.#reference.nowUs = START_US;
  }

  /** What each of them answered and pushed. */
  async play(one: Op): Promise<{ readonly ours: unknown; readonly rules: unknown }> {
    await this.#side.setClock(this.#reference.nowUs);
    this.#reference.pushed = [];
    const [ours, rules] = await this.#ask(one);
    const pushed = await this.#side.pushed?.();
    const looks = await Promise.all(KEYS.map((name) => (this.#stores[0] as OpenStore).inspect(name, io)));
    return {
      ours: plain({ one, answer: ours, pushed, looks }),
      rules: plain({
        one,
        answer: rules,
        pushed: pushed === undefined ? undefined : this.#reference.pushed,
        looks: KEYS.map((name) => this.#reference.inspect("a", name)),
      }),
    };
  }

  async #ask(one: Op): Promise<readonly [unknown, unknown]> {
    if (one.op === "pass") {
      this.#reference.nowUs += one.us;
      await this.#side.setClock(this.#reference.nowUs);
      return [null, null];
    }
    if (one.op === "new") {
      this.#known.push({ request: request(one.keys, { ...one.wish, seq: 0 }), proc: one.proc, fences: [] });
      return this.#attempt(this.#known.at(-1) as Known);
    }
    const known = one.which === null ? undefined : this.#known[one.which % Math.max(1, this.#known.length)];
    if (one.op === "revoke") {
      const fence = known?.fences[0];
      const options = { reason: "because", force: one.force, ...(fence === undefined ? {} : { fence }) };
      const store = this.#stores[0] as OpenStore;
      return [await store.revoke(one.key, options, io), this.#reference.revoke("a", one.key, options)];
    }
    return known === undefined ? [null, null] : this.#askAbout(known, one);
  }

  async #askAbout(
    known: Known,
    one: Exclude<Op, { op: "new" | "pass" | "revoke" }>,
  ): Promise<readonly [unknown, unknown]> {
    const { request: asked } = known;
    const [store, proc] = [this.#stores[known.proc] as OpenStore, PROCS[known.proc]];
    if (one.op === "again") return this.#attempt(known);
    if (one.op === "abandon") {
      this.#reference.abandon(proc, asked);
      return [await store.abandon([asked], io), []];
    }
    if (one.op === "owns") return [await store.owns(asked, null, io), this.#reference.owns(proc, asked)];
    if (one.op === "note") {
      const note = one.waitingFor === null ? null : { waitingFor: one.waitingFor };
      return [await store.note(asked, null, note, io), this.#reference.note(proc, asked, one.waitingFor)];
    }
    if (known.fences.length === 0) return [null, null];
    const { handedOn } = one as Extract<Op, { op: "release" }>;
    const lastFences = known.fences.map((fence) => fence + BigInt(handedOn));
    const used = lastFences.map(Number);
    if (one.op === "release") {
      return [
        await store.release(asked, null, { lastFences }, io),
        this.#reference.release(proc, asked, used),
      ];
    }
    const item = { request: asked, cookie: null, ttlMs: asked.ttlMs, lastFences, label: asked.label };
    // The rules know nothing of the server's clock.
    const { clocks: _clocks, ...answer } = (await store.renew([item], io))[0] as RenewAnswer;
    return [answer, this.#reference.renew(proc, asked, used)];
  }

  async #attempt(known: Known): Promise<readonly [unknown, unknown]> {
    known.request = { ...known.request, seq: known.request.seq + 1 };
    const ours = await (this.#stores[known.proc] as OpenStore).attempt(known.request, io);
    if ("granted" in ours) known.fences = ours.granted.fences;
    return [ours, this.#reference.attempt(PROCS[known.proc], known.request)];
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
