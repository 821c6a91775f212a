// The same random histories for the functions in a real PostgreSQL and for the plain rules of the reference:
// every answer and every notification must be equal, fences and times included. The functions read the time
// from a table instead of the server's clock, so that the test can move it, and write their notifications to
// a table; nothing else in them is changed. A second test ends sessions in the middle of their calls.

import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Pool } from "pg";
import type { AttemptAnswer, Io, OpenStore, ReleaseOptions, Request } from "../../../src/core/store.ts";
import { Connections, type PgPool } from "../../../src/stores/postgres/client/connections.ts";
import { fullSchema } from "../../../src/stores/postgres/schema.ts";
import { type Sql, sqlFor } from "../../../src/stores/postgres/sql.ts";
import { PostgresStore } from "../../../src/stores/postgres/store.ts";
import { nodeSystem } from "../../../src/system/node.ts";
import { type Op, ops, several, wish } from "../../support/histories.ts";
import { runs } from "../../support/histories-count.ts";
import { openPool } from "../../support/pg-pool.ts";
import { RedisPair, type RedisSide, START_US } from "../redis/pair.ts";
import { io, PostgresWorld, request } from "./fixture.ts";

const HISTORIES = runs(10);
const RULES = { firstBeatMs: 1_000, longestBeatMs: 10_000, fencePerKey: true };

let world: PostgresWorld;
let pool: Pool;
let connections: Connections;
let sql: Sql;

/** As core does, plain locks take the direct way, which begins with a plain statement. */
class DirectStore extends PostgresStore {
  override attempt(asked: Request, call: Io): Promise<AttemptAnswer<null>> {
    if (asked.seq > 1 || !isPlain(asked)) return super.attempt(asked, call);
    return new Promise((resolve, reject) =>
      this.direct.attempt(asked, (error, answer) => (answer === null ? reject(error) : resolve(answer))),
    );
  }

  override release(asked: Request, _cookie: null, options: ReleaseOptions, call: Io): Promise<Outcome> {
    const [lastFence] = options.lastFences;
    if (lastFence === undefined || !isPlain(asked)) return super.release(asked, null, options, call);
    return new Promise((resolve, reject) =>
      this.direct.release(asked, null, lastFence, (error, outcome) =>
        outcome === null ? reject(error) : resolve(outcome),
      ),
    );
  }
}

type Outcome = "released" | "not-held";

function isPlain({ keys, mode, limit, keepMs }: Request): boolean {
  return keys.length === 1 && mode === "exclusive" && limit === 1 && keepMs === 0;
}

function bend(text: string): string {
  return text
    .replaceAll(/\bnow\(\)/g, "(SELECT at FROM bent_clock)")
    .replaceAll("clock_timestamp()", "(SELECT at FROM bent_clock)")
    .replaceAll(/pg_notify\(\s*'holdfast_' \|\| [lwh]\.proc,\s+/g, "bent_notify(");
}

beforeAll(async () => {
  world = await PostgresWorld.start();
  await world.ask(`CREATE TABLE bent_clock (at timestamptz NOT NULL); INSERT INTO bent_clock VALUES (now());
    CREATE TABLE bent_pushed (number bigserial, words text);
    CREATE FUNCTION bent_notify(text) RETURNS void LANGUAGE sql
      AS $$ INSERT INTO bent_pushed (words) VALUES ($1) $$`);
  await world.ask(bend(fullSchema("bent")));
  pool = openPool(world.url);
  connections = new Connections(pool as unknown as PgPool, true, nodeSystem.monoMs);
  const texts = Object.entries(sqlFor("public.bent")).map(([name, text]) => [name, bend(text)]);
  sql = Object.fromEntries(texts) as Sql;
  connections.setUpSessions(sql.own_session);
});

afterAll(async () => {
  await pool?.end();
  await world?.stop();
});

const side: RedisSide = {
  async setClock(us) {
    await world.ask(
      `WITH old AS (DELETE FROM bent_pushed)
      UPDATE bent_clock SET at = timestamptz 'epoch' + $1::bigint * interval '1 microsecond'`,
      [us],
    );
  },
  pushed: async () =>
    (await world.ask("SELECT words FROM bent_pushed ORDER BY number")).map(({ words }) => String(words)),
  hasPlace: async (namespace, key, id) => {
    const text =
      "SELECT 1 FROM bent_waiter AS w JOIN bent_lock AS l USING (name) WHERE l.namespace = $1 AND " +
      "l.key = $2 AND w.id = $3";
    return (await world.ask(text, [namespace, Buffer.from(key), id])).length === 1;
  },
};

let histories = 0;

async function compare(history: readonly Op[]): Promise<void> {
  histories += 1;
  const namespace = `m${histories}`;
  await side.setClock(START_US);
  const env = { namespace, system: nodeSystem, allow: [] };
  const stores = ["a", "b"].map(() => new DirectStore(connections, sql, true, env));
  const pair = new RedisPair(side, stores, namespace, RULES);
  for (const one of history) {
    const { ours, rules } = await pair.play(one);
    expect(inAnyOrder(ours)).toEqual(inAnyOrder(rules));
  }
  expect(await inconsistent("bent")).toEqual([]);
}

/** Holders of several keys have no order. Of more than three, some are not shown. */
function inAnyOrder(played: unknown): unknown {
  const { answer } = played as {
    answer: { busy?: { holders: { label: string }[]; holderCount: number } } | null;
  };
  const busy = answer?.busy;
  if (busy !== undefined && busy.holderCount > 3) busy.holders = [];
  busy?.holders.sort((a, b) => (a.label < b.label ? -1 : 1));
  return played;
}

/** Rows whose counts do not agree with the rows that they count. */
async function inconsistent(table: string): Promise<unknown[]> {
  return world.ask(
    `SELECT encode(l.key, 'escape') AS key, l.in_use, l.holders, l.waiting, l.head, h.*, w.*
    FROM ${table}_lock AS l,
      LATERAL (SELECT count(*) AS h_count, coalesce(sum(permits), 0) AS h_sum, min(ends_at) AS h_ends
        FROM ${table}_holder AS h WHERE h.name = l.name) AS h,
      LATERAL (SELECT count(*) AS w_count, min(ticket) FILTER (WHERE ticket > 0) AS w_head,
        max(abs(ticket)) AS w_last FROM ${table}_waiter AS w WHERE w.name = l.name) AS w
    WHERE l.holders <> h.h_count OR l.waiting <> w.w_count OR w.w_head < l.head OR w.w_last > l.last_ticket
      OR (CASE WHEN l.in_use > 0 AND l.mode = 'x' THEN h.h_count > 0
        ELSE l.in_use <> h.h_sum OR l.ends_at > h.h_ends END)`,
  );
}

describe("the functions", () => {
  it(
    "give the answers of the plain rules, for any history (P1, P3, P5, P8, P9, P12)",
    async () => {
      await fc.assert(fc.asyncProperty(ops(several, wish), compare), { ...HISTORIES, endOnFailure: true });
    },
    120_000 + HISTORIES.numRuns * 6_000,
  );

  it("keep their tables whole while sessions are ended in the middle of calls (P1, P3, P9)", async () => {
    const stores = await Promise.all(
      Array.from({ length: 4 }, () => world.open({ url: world.url }, "killed")),
    );
    const keys = ["a", "b", "c"];
    const inside = new Map<string, number>();
    const fences = new Map<string, bigint>();
    let [sections, failures, isOver] = [0, 0, false];
    const enter = (key: string, by: number): void => {
      const now = (inside.get(key) ?? 0) + by;
      inside.set(key, now);
      expect(now).toBeLessThanOrEqual(1);
    };
    const section = async (store: OpenStore, round: number): Promise<void> => {
      const wanted = round % 3 === 0 ? ["a", "b"] : [keys[round % 3] as string];
      let one = request(wanted, { ttlMs: 60_000 });
      try {
        for (;;) {
          const answer = await store.attempt(one, io);
          if ("ended" in answer) return;
          if ("granted" in answer) {
            for (const [at, key] of wanted.entries()) {
              const fence = answer.granted.fences[at] as bigint;
              enter(key, 1);
              expect(fence > (fences.get(key) ?? 0n)).toBe(true);
              fences.set(key, fence);
            }
            await io.sleep(1);
            for (const key of wanted) enter(key, -1);
            const outcome = await store.release(one, null, { lastFences: answer.granted.fences }, io);
            expect(outcome).toBe("released");
            sections += 1;
            return;
          }
          await io.sleep(5);
          one = { ...one, seq: one.seq + 1 };
        }
      } catch (error) {
        if ((error as Error).name === "AssertionError") throw error;
        failures += 1;
        await retry(async () => expect(await store.abandon([one], io)).toEqual([]));
      }
    };
    const work = async (store: OpenStore, first: number): Promise<void> => {
      for (let round = first; !isOver; round += 1) await section(store, round);
    };
    const working = Promise.all(stores.flatMap((store) => [work(store, 0), work(store, 1), work(store, 2)]));
    for (let kills = 0; kills < 60; kills += 1) {
      await io.sleep(30);
      await world.ask(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfast' " +
          "ORDER BY random() LIMIT 2",
      );
    }
    isOver = true;
    await working;
    expect(await inconsistent("holdfast")).toEqual([]);
    const left = "SELECT 1 FROM holdfast_lock WHERE namespace = 'killed' AND (in_use > 0 OR waiting > 0)";
    expect(await world.ask(left)).toEqual([]);
    expect(sections).toBeGreaterThan(20);
    expect(failures).toBeGreaterThan(0);
  });
});

/** Until it succeeds: sessions are ended all the time. */
async function retry(run: () => Promise<void>): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await run();
    } catch (error) {
      if (tries === 100) throw error;
      await io.sleep(10);
    }
  }
}
