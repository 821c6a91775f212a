// The same random histories for the scripts in a real Redis and for the rules of the ledger: every answer and every push must be
// equal, fences and times included. The scripts read the time from a list instead of the server's clock, so that it can be
// moved by hand, and write their pushes to a list; nothing else in them is changed. The same for transactions, with
// scripts on the other side of the same keys.

import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Redis } from "ioredis";
import type { OpenStore, Request } from "../../src/core/store.ts";
import { portOf } from "../../src/stores/redis/clients.ts";
import type { RedisPort } from "../../src/stores/redis/port.ts";
import { scripts } from "../../src/stores/redis/scripts.generated.ts";
import { RedisOpenStore } from "../../src/stores/redis/store.ts";
import { nodeSystem } from "../../src/system/node.ts";
import { Reference } from "./reference.ts";
import { io, RedisWorld, request } from "./world.ts";

/** More by command: HOLDFAST_HISTORIES=2000 npx vitest run --project redis. */
const HISTORIES = Number(process.env["HOLDFAST_HISTORIES"] ?? 120);
const START_US = 1_800_000_000_000_000;
const PROCS = ["a", "b"] as const;
const KEYS = ["x", "y", "z"] as const;

let world: RedisWorld;
let client: Redis;

beforeAll(async () => {
  world = await RedisWorld.start();
  client = new Redis(world.url);
});

afterAll(async () => {
  client?.disconnect();
  await world?.stop();
});

const bent = new Map(
  Object.values(scripts).map(({ sha, text }) => [
    sha,
    text
      .replaceAll("redis.call('TIME')", "redis.call('LRANGE', 'clock', '0', '1')")
      .replaceAll(/redis\.call\('PUBLISH', [^,]+, (.*?)\) end/g, "redis.call('RPUSH', 'pushed', $1) end"),
  ]),
);

const CLOCK = ["LRANGE", "clock", "0", "1"];

function bend(port: RedisPort): RedisPort {
  return {
    keyPrefix: "",
    send: ([command, script, ...rest], patience) => {
      if (command !== "EVALSHA")
        return port.send(
          [command, script, ...rest].filter((word) => word !== undefined),
          patience,
        );
      const text = bent.get(script as string);
      if (text === undefined) return Promise.reject(new Error("NOSCRIPT"));
      return port.send(["EVAL", text, ...rest], patience);
    },
    session: async (name) => {
      const session = await (port.session as NonNullable<RedisPort["session"]>).call(port, name);
      return {
        get open() {
          return session.open;
        },
        send: (words) => {
          if (words[0] === "TIME") return session.send(CLOCK);
          return session.send(words[0] === "PUBLISH" ? ["RPUSH", "pushed", words[2] as string] : words);
        },
        close: () => session.close(),
      };
    },
    subscribe: () => Promise.resolve(() => Promise.resolve()),
    close: () => port.close(),
  };
}

type Op =
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
const key = fc.constantFrom(...KEYS);
const wish = fc.record({
  mode: fc.constantFrom("exclusive" as const, "exclusive" as const, "shared" as const),
  limit: fc.constantFrom(1, 1, 1, 3),
  ttlMs: fc.constantFrom(200, 300, 5_000, 30_000),
  keepMs: fc.constantFrom(0, 0, 0, 400),
  queue: fc.constantFrom(true, true, true, false),
  permits: fc.constantFrom(1, 2),
});
const locks = fc.record({
  ttlMs: fc.constantFrom(200, 300, 5_000, 30_000),
  queue: fc.constantFrom(true, true, true, false),
});

const several = fc.oneof(
  { weight: 4, arbitrary: key.map((one) => [one]) },
  { weight: 1, arbitrary: fc.subarray([...KEYS], { minLength: 2 }) },
);

const ops = (keys: fc.Arbitrary<string[]>, wishes: fc.Arbitrary<Partial<Request>>): fc.Arbitrary<Op[]> =>
  fc.array(opOf(keys, wishes), { minLength: 10, maxLength: 40, size: "max" });

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

/** Both sides of one history. */
class Pair {
  readonly #reference = new Reference();
  readonly #stores: readonly OpenStore[];
  readonly #known: Known[] = [];

  constructor(stores: readonly OpenStore[]) {
    this.#stores = stores;
    this.#reference.nowUs = START_US;
  }

  /** What each of them answered and pushed. */
  async play(one: Op): Promise<{ readonly ours: unknown; readonly rules: unknown }> {
    await this.#setClock();
    this.#reference.pushed = [];
    const [ours, rules] = await this.#ask(one);
    const pushed = await client.lrange("pushed", 0, -1);
    const looks = await Promise.all(KEYS.map((name) => (this.#stores[0] as OpenStore).inspect(name, io)));
    return {
      ours: plain({ one, answer: ours, pushed, looks }),
      rules: plain({
        one,
        answer: rules,
        pushed: this.#reference.pushed,
        looks: KEYS.map((name) => this.#reference.inspect("a", name)),
      }),
    };
  }

  async #setClock(): Promise<void> {
    const us = this.#reference.nowUs;
    await client
      .multi()
      .del("clock", "pushed")
      .rpush("clock", String(Math.floor(us / 1_000_000)), String(us % 1_000_000))
      .exec();
  }

  async #ask(one: Op): Promise<readonly [unknown, unknown]> {
    if (one.op === "pass") {
      this.#reference.nowUs += one.us;
      await this.#setClock();
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
    if (one.op === "abandon") return [await store.abandon(asked, io), this.#reference.abandon(proc, asked)];
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
    return [(await store.renew([item], io))[0], this.#reference.renew(proc, asked, used)];
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

let histories = 0;

/** Which way each of the two processes has. */
async function compare(history: readonly Op[], ways: readonly [boolean, boolean]): Promise<void> {
  histories += 1;
  const env = { namespace: `m${histories}`, system: nodeSystem, allow: [] };
  await client.del("clock", "pushed");
  const opened = await Promise.all(
    ways.map((way) =>
      RedisOpenStore.open(() => bend(portOf(client)), env, { topology: "node", replicas: 0, scripts: way }),
    ),
  );
  try {
    const pair = new Pair(opened);
    for (const one of history) {
      const { ours, rules } = await pair.play(one);
      expect(ours).toEqual(rules);
    }
  } finally {
    await Promise.all(opened.map((store) => store.close()));
  }
}

describe("the scripts", () => {
  it(
    "give the answers of the ledger, for any history of requests, releases, revocations and pauses (P1, P3, P5, P8, P9, P12)",
    async () => {
      await fc.assert(
        fc.asyncProperty(ops(several, wish), (history) => compare(history, [true, true])),
        { numRuns: HISTORIES },
      );
    },
    120_000 + HISTORIES * 500,
  );
});

describe("transactions", () => {
  it.each([
    ["alone", [false, false]],
    ["beside scripts", [true, false]],
    ["beside scripts, the other way round", [false, true]],
  ] as const)(
    "give the answers of the ledger, %s (P1, P3, P5, P8, P12)",
    async (_name, ways) => {
      await fc.assert(
        fc.asyncProperty(
          ops(
            key.map((one) => [one]),
            locks,
          ),
          (history) => compare(history, ways),
        ),
        { numRuns: Math.ceil(HISTORIES / 3) },
      );
    },
    120_000 + HISTORIES * 500,
  );
});
