// The same random histories for the procedures in a real MariaDB and for the plain rules of reference.ts:
// every answer and every look must be equal, fences and times included. Statements and procedures read the
// time from a table instead of the server's clock, so that it can be moved by hand; nothing else in them is
// changed. And histories of many at once whose sessions are killed in the middle: no step is left half done.

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type MariadbArgs, MariadbNode } from "../../../scripts/servers/mariadb-pair.ts";
import { freePort } from "../../../scripts/servers/ports.ts";
import type { AttemptAnswer, OpenStore, RenewAnswer, Request } from "../../../src/core/store.ts";
import { loadMysql2, Mysql2Port } from "../../../src/stores/mysql/client/mysql2.ts";
import type { MysqlPort, SqlConnection } from "../../../src/stores/mysql/client/port.ts";
import { parseUrl } from "../../../src/stores/mysql/options.ts";
import { sql } from "../../../src/stores/mysql/sql.ts";
import { openTableOn } from "../../../src/stores/mysql/store.ts";
import { nodeSystem } from "../../../src/system/node.ts";
import { type Op, ops, several, wish } from "../../support/histories.ts";
import { runs } from "../../support/histories-count.ts";
import { Asking } from "./client.ts";
import { io, openStore, relayed, request, until } from "./fixture.ts";
import { MysqlReference } from "./reference.ts";

const HISTORIES = runs(15);
const START_US = 1_800_000_000_000_000;
const KEYS = ["x", "y", "z"] as const;
/** So many answers are waited for, however slow the machine is. */
const ANSWERS = 150;

let node: MariadbNode;
let asking: Asking;

/** `options`: of the server. */
export function modelCases(options: MariadbArgs = {}): void {
  beforeAll(async () => {
    node = new MariadbNode(
      await freePort(),
      mkdtempSync(join(tmpdir(), "holdfast-mysql-model-")),
      1,
      options,
    );
    await node.start();
    asking = await Asking.open(node.url);
  });

  afterAll(async () => {
    asking?.close();
    await node?.stop();
  });

  procedureCases();
}

/**
 * Over which every statement and every procedure reads the time that the test has set. Nobody can be woken.
 */
function bent(port: MysqlPort): MysqlPort {
  const bentConnection = (one: SqlConnection): SqlConnection =>
    relayed(one, (text, values) => {
      if (text.includes("READ UNCOMMITTED")) return Promise.reject(new Error("this store does not listen"));
      return one.run(text.replaceAll(sql["now"], "(SELECT us FROM bent_clock)"), values);
    });
  return {
    hosts: port.hosts,
    connect: async (host) => bentConnection(await port.connect(host)),
    close: () => port.close(),
  };
}

interface Known {
  request: Request;
  readonly store: OpenStore;
  fences: readonly bigint[];
}

/** One history, played on both sides. */
class Pair {
  readonly #reference = new MysqlReference();
  readonly #stores: readonly OpenStore[];
  readonly #known: Known[] = [];

  constructor(stores: readonly OpenStore[]) {
    this.#stores = stores;
    this.#reference.nowUs = START_US;
  }

  async play(one: Op): Promise<{ readonly ours: unknown; readonly rules: unknown }> {
    await asking.run("UPDATE bent_clock SET us = ?", [this.#reference.nowUs]);
    const [ours, rules] = await this.#ask(one);
    const [store] = this.#stores as readonly [OpenStore];
    const looks = await Promise.all(KEYS.map((name) => store.inspect(name, io)));
    const expected = KEYS.map((name) => this.#reference.inspect(name));
    return {
      ours: comparable({ one, answer: ours, looks }),
      rules: comparable({ one, answer: rules, looks: expected }),
    };
  }

  async #ask(one: Op): Promise<readonly [unknown, unknown]> {
    const [reference, [store]] = [this.#reference, this.#stores as readonly [OpenStore]];
    if (one.op === "pass") {
      reference.nowUs += one.us;
      await asking.run("UPDATE bent_clock SET us = ?", [reference.nowUs]);
      return [null, null];
    }
    if (one.op === "new") {
      // Core refuses permits of a read lock, and more permits than the limit.
      const mode = (one.wish.limit ?? 1) > 1 ? "exclusive" : (one.wish.mode ?? "exclusive");
      const permits = Math.min(one.wish.permits ?? 1, one.wish.limit ?? 1);
      const asked = request(one.keys, { ...one.wish, mode, permits, seq: 0 });
      this.#known.push({ request: asked, store: this.#stores[one.proc] as OpenStore, fences: [] });
      return this.#attempt(this.#known.at(-1) as Known);
    }
    const known = one.which === null ? undefined : this.#known[one.which % Math.max(1, this.#known.length)];
    if (one.op === "revoke") {
      const fence = known?.fences[0];
      const options = { reason: "because", force: one.force, ...(fence === undefined ? {} : { fence }) };
      return [await store.revoke(one.key, options, io), reference.revoke(one.key, options)];
    }
    return known === undefined ? [null, null] : this.#askAbout(known, one);
  }

  async #askAbout(
    known: Known,
    one: Exclude<Op, { op: "new" | "pass" | "revoke" }>,
  ): Promise<readonly [unknown, unknown]> {
    const { request: asked, store } = known;
    const reference = this.#reference;
    if (one.op === "again") return this.#attempt(known);
    if (one.op === "abandon") {
      reference.abandon(asked);
      return [await store.abandon([asked], io), []];
    }
    if (one.op === "owns") return [await store.owns(asked, null, io), reference.owns(asked)];
    if (one.op === "note") {
      const note = one.waitingFor === null ? null : { waitingFor: one.waitingFor };
      return [await store.note(asked, null, note, io), reference.note(asked, one.waitingFor)];
    }
    if (known.fences.length === 0) return [null, null];
    const { handedOn } = one as Extract<Op, { op: "release" }>;
    const lastFences = known.fences.map((fence) => fence + BigInt(handedOn));
    const used = lastFences.map(Number);
    if (one.op === "release")
      return [await store.release(asked, null, { lastFences }, io), reference.release(asked, used)];
    const item = { request: asked, cookie: null, ttlMs: asked.ttlMs, lastFences, label: asked.label };
    const [answer] = (await store.renew([item], io)) as [RenewAnswer];
    return [answer, reference.renew(asked, used)];
  }

  async #attempt(known: Known): Promise<readonly [unknown, unknown]> {
    known.request = { ...known.request, seq: known.request.seq + 1 };
    const ours = await known.store.attempt(known.request, io);
    if ("granted" in ours) known.fences = ours.granted.fences;
    const againMs = "busy" in ours ? ours.busy.againMs : 0;
    const rules = this.#reference.attempt(known.request, againMs);
    if (!("busy" in ours)) return [ours, rules];
    expect(againMs).toBeGreaterThan(0);
    expect(againMs).toBeLessThanOrEqual(1_000);
    const { position } = ours.busy;
    return [{ busy: { againMs, ...(position === undefined ? {} : { position }) } }, rules];
  }
}

/** Fractions of a microsecond are lost on the way through text. */
function comparable(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (_name, part: unknown) => {
      if (typeof part === "bigint") return String(part);
      return typeof part === "number" ? Math.round(part * 100) / 100 : part;
    }),
  );
}

function procedureCases(): void {
  describe("the procedures", () => {
    it(
      "give the answers of the rules, for any history of requests, releases, revocations and pauses (P1, " +
        "P3, P5, P8, P9, P12)",
      async () => {
        await asking.run("CREATE DATABASE bent");
        await asking.run("USE bent");
        await asking.run("CREATE TABLE bent_clock (us BIGINT NOT NULL)");
        await asking.run("INSERT INTO bent_clock VALUES (1)");
        const { login } = parseUrl(node.url.replace("/locks", "/bent"));
        let histories = 0;
        let grants = 0;
        await fc.assert(
          fc.asyncProperty(ops(several, wish), async (history) => {
            histories += 1;
            const env = { namespace: `m${histories}`, system: nodeSystem, allow: [] };
            const options = { maxTtlMs: 60_000, createSchema: true };
            const open = async (): Promise<OpenStore> =>
              openTableOn(bent(new Mysql2Port(await loadMysql2(), login)), options, env);
            const stores = [await open(), await open()];
            const pair = new Pair(stores);
            for (const one of history) {
              const { ours, rules } = await pair.play(one);
              expect(ours).toEqual(rules);
              if (JSON.stringify(ours).includes('"granted"')) grants += 1;
            }
            for (const store of stores) await store.close();
          }),
          { ...HISTORIES, endOnFailure: true },
        );
        expect(grants).toBeGreaterThan(HISTORIES.numRuns);
        await asking.run("USE locks");
      },
      300_000 + HISTORIES.numRuns * 1_000,
    );

    it("leave no step half done when sessions are killed in the middle of it (P1, P3, P9)", async () => {
      const stores = await Promise.all(
        Array.from({ length: 3 }, () => openStore({ url: node.url }, "killed")),
      );
      const fences = new Map<string, bigint[]>(KEYS.map((key) => [key, []]));
      let [answers, kills] = [0, 0];
      const client = async (at: number): Promise<void> => {
        for (let turn = at; answers < ANSWERS; turn += 1) {
          const store = stores[at % stores.length] as OpenStore;
          const one = request(turn % 3 === 0 ? ["x", "y"] : (KEYS[turn % 3] as string), kindOf(turn));
          answers += await playOne(store, one, fences);
        }
      };
      const killer = await Asking.open(node.url);
      const killing = (async () => {
        while (answers < ANSWERS) {
          const others = (await killer.rows("SHOW PROCESSLIST")).filter(
            (row) => row["db"] === "locks" && ![killer.id, asking.id].includes(Number(row["Id"])),
          );
          const victim = others[kills % Math.max(1, others.length)];
          if (victim !== undefined) await killer.run(`KILL ${Number(victim["Id"])}`).catch(() => {});
          await io.sleep(60);
          kills += others.length > 0 ? 1 : 0;
        }
      })();
      await Promise.all([killing, ...Array.from({ length: 9 }, (_none, at) => client(at))]);
      killer.close();
      expect(kills).toBeGreaterThan(0);
      expect(await halfDone(asking)).toEqual([]);
      for (const all of fences.values()) expect(new Set(all).size).toBe(all.length);
      // What the killed calls left behind ends by itself.
      const last = request([...KEYS]);
      let seq = 0;
      await until("all keys", async () => {
        seq += 1;
        const answer = await (stores[0] as OpenStore).attempt({ ...last, seq }, io).catch(() => null);
        return answer !== null && "granted" in answer;
      });
      expect(await halfDone(asking)).toEqual([]);
      for (const store of stores) await store.close();
    }, 200_000);
  });
}

function kindOf(turn: number): Partial<Request> {
  const times = { ttlMs: 1_000, queue: turn % 4 !== 0 };
  if (turn % 5 === 0) return { ...times, mode: "shared", reservedFences: 0 };
  if (turn % 5 === 1) return { ...times, limit: 3, permits: 1 + (turn % 2), reservedFences: 0 };
  return times;
}

/** Attempts a few times, then releases or abandons. Gives how many answers there were. */
async function playOne(store: OpenStore, one: Request, fences: Map<string, bigint[]>): Promise<number> {
  let answers = 0;
  for (let seq = 1; seq <= 3; seq += 1) {
    const answer: AttemptAnswer | null = await store.attempt({ ...one, seq }, io).catch(() => null);
    if (answer === null) continue;
    answers += 1;
    if (!("granted" in answer)) continue;
    const lastFences = answer.granted.fences;
    for (const [at, key] of one.keys.entries()) fences.get(key)?.push(lastFences[at] as bigint);
    const outcome = await store.release(one, null, { lastFences }, io).catch(() => null);
    if (outcome !== null) return answers + 1;
    break;
  }
  await store.abandon([one], io).catch(() => []);
  return answers;
}

/** Locks whose counts are not those of their holders and waiters. */
async function halfDone(at: Asking): Promise<unknown[]> {
  return at.rows(
    `SELECT CONVERT(l.lock_key USING utf8mb4) AS lock_key, l.mode, l.used, l.waiting, l.holder
     FROM holdfast_locks AS l
     WHERE l.waiting <> (SELECT COUNT(*) FROM holdfast_waiters AS w WHERE w.name = l.name)
       OR (l.mode = 'x' AND (l.used NOT IN (0, 1) OR (l.used = 0 AND l.holder IS NOT NULL)
         OR EXISTS (SELECT 1 FROM holdfast_holders AS h WHERE h.name = l.name)))
       OR (l.mode <> 'x' AND l.used <> (
         SELECT COALESCE(SUM(h.permits), 0) FROM holdfast_holders AS h WHERE h.name = l.name))`,
  );
}
