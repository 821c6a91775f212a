// The same random histories for the statements in a real PostgreSQL and for the rules of the ledger: every answer and every look must
// be equal, fences and times included. What the short ways decide in SQL is thereby held against the rules. The statements read
// the time from a table instead of the server's clock, so that it can be moved by hand; nothing else in them is changed.

import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Pool } from "pg";
import type { OpenStore, Request } from "../../src/core/store.ts";
import { readSettings } from "../../src/stores/postgres/check.ts";
import { postgresGuarantees } from "../../src/stores/postgres/index.ts";
import { type PgPool, PgPort } from "../../src/stores/postgres/port.ts";
import { type Sql, sqlFor } from "../../src/stores/postgres/sql.ts";
import { PostgresTable } from "../../src/stores/postgres/table.ts";
import { LeaseTable } from "../../src/stores/shared/lease-table.ts";
import { nodeSystem } from "../../src/system/node.ts";
import { Reference } from "../redis/reference.ts";
import { io, PostgresWorld, request } from "./world.ts";

/** More by command: HOLDFAST_HISTORIES=2000 npx vitest run --project postgres. */
const HISTORIES = Number(process.env["HOLDFAST_HISTORIES"] ?? 60);
const START_US = 1_800_000_000_000_000;
const PROCS = ["a", "b"] as const;
const KEYS = ["x", "y", "z"] as const;

let world: PostgresWorld;
let pool: Pool;
let port: PgPort;

beforeAll(async () => {
  world = await PostgresWorld.start();
  await world.open();
  await world.ask("CREATE TABLE bent_clock (at timestamptz NOT NULL)");
  await world.ask("INSERT INTO bent_clock VALUES (now())");
  pool = new Pool({ connectionString: world.url });
  port = new PgPort(pool as unknown as PgPool, false);
});

afterAll(async () => {
  await pool?.end();
  await world?.stop();
});

const bent = Object.fromEntries(
  Object.entries(sqlFor("holdfast")).map(([name, text]) => [
    name,
    text.replaceAll("clock_timestamp()", "(SELECT at FROM bent_clock)"),
  ]),
) as Sql;

async function bentStore(namespace: string): Promise<OpenStore> {
  const settings = await readSettings(port, bent, io);
  const table = new PostgresTable(port, settings, { namespace, sql: bent, system: nodeSystem });
  return new LeaseTable("postgres", table, postgresGuarantees, { namespace, system: nodeSystem, allow: [] });
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
const op: fc.Arbitrary<Op> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      op: fc.constant("new" as const),
      proc: fc.constantFrom(0 as const, 1 as const),
      keys: fc.oneof(
        { weight: 4, arbitrary: key.map((one) => [one]) },
        { weight: 1, arbitrary: fc.subarray([...KEYS], { minLength: 2 }) },
      ),
      wish,
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
  readonly #reference = new Reference({ beatFirst: true });
  readonly #stores: readonly OpenStore[];
  readonly #known: Known[] = [];

  constructor(stores: readonly OpenStore[]) {
    this.#stores = stores;
    this.#reference.nowUs = START_US;
  }

  /** What each of them answered and pushed. */
  async play(one: Op): Promise<{ readonly ours: unknown; readonly rules: unknown }> {
    await this.#setClock();
    const [ours, rules] = await this.#ask(one);
    const looks = await Promise.all(KEYS.map((name) => (this.#stores[0] as OpenStore).inspect(name, io)));
    return {
      ours: plain({ one, answer: ours, looks }),
      rules: plain({
        one,
        answer: rules,
        looks: KEYS.map((name) => this.#reference.inspect("a", name)),
      }),
    };
  }

  async #setClock(): Promise<void> {
    const us = this.#reference.nowUs;
    await world.ask(
      "UPDATE bent_clock SET at = timestamptz 'epoch' + $1::bigint * interval '1 microsecond'",
      [us],
    );
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

describe("the statements", () => {
  it(
    "give the answers of the ledger, for any history of requests, releases, revocations and pauses (P1, P3, P5, P8, P9, P12)",
    async () => {
      let histories = 0;
      let short = 0;
      await fc.assert(
        fc.asyncProperty(fc.array(op, { minLength: 10, maxLength: 40, size: "max" }), async (ops) => {
          histories += 1;
          const namespace = `m${histories}`;
          const pair = new Pair(await Promise.all(PROCS.map(() => bentStore(namespace))));
          for (const one of ops) {
            const { ours, rules } = await pair.play(one);
            expect(ours).toEqual(rules);
          }
          const rows = await world.ask(
            "SELECT 1 FROM holdfast_locks WHERE namespace = $1 AND record IS NULL",
            [namespace],
          );
          short += rows.length;
        }),
        { numRuns: HISTORIES },
      );
      // Both forms of a row have been met.
      expect(short).toBeGreaterThan(0);
    },
    120_000 + HISTORIES * 500,
  );
});
