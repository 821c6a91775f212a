// The everyday examples on real servers, each by several openings of the store, as several processes would have them.

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { createPool, type RowDataPacket } from "mysql2/promise";
import { createClient } from "redis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { nightly } from "../../examples/everyday/cron.ts";
import { dial, SCHEMA as PHONES } from "../../examples/everyday/dialling.ts";
import { invoice, SCHEMA as INVOICES } from "../../examples/everyday/invoice.ts";
import { type Beat, campaign } from "../../examples/everyday/leader.ts";
import { ALLOWED, call } from "../../examples/everyday/quota.ts";
import { type Accounts, transfer } from "../../examples/everyday/transfer.ts";
import { startMariadb } from "../../scripts/servers/mariadb.ts";
import { startPostgres } from "../../scripts/servers/postgres.ts";
import type { RunningServer } from "../../scripts/servers/process.ts";
import { startRedis } from "../../scripts/servers/redis.ts";
import { createLocks, type Locks } from "../../src/index.ts";
import { openPool } from "../support/pg-pool.ts";

let redis: RunningServer;
let mariadb: RunningServer;
let postgres: RunningServer;

beforeAll(async () => {
  [redis, mariadb, postgres] = await Promise.all([
    startRedis({ own: true }),
    startMariadb({ own: true }),
    startPostgres({ own: true }),
  ]);
});

afterAll(() => Promise.all([redis, mariadb, postgres].map((server) => server?.stop())));

/** So many replicas, closed when the test is over. */
async function replicas(
  url: string,
  count: number,
  run: (all: readonly Locks[]) => Promise<void>,
): Promise<void> {
  const all = Array.from({ length: count }, () => createLocks(url));
  try {
    await run(all);
  } finally {
    await Promise.all(all.map((locks) => locks.close({ drain: 0 })));
  }
}

const turns = <T>(all: readonly T[], count: number): T[] =>
  Array.from({ length: count }, (_, i) => all[i % all.length] as T);

describe("everyday work", () => {
  it("dialling: no phone is in two calls at once, and every phone is idle at the end (P1, P4)", async () => {
    const db = createPool({ uri: mariadb.url, connectionLimit: 8 });
    for (const statement of PHONES) await db.query(statement);
    await db.query("INSERT INTO phones (id, number) VALUES (1, '139-1'), (2, '139-2'), (3, '139-3')");
    await replicas(redis.url, 3, async (all) => {
      // Nobody hangs up before three phones are in use.
      let began = 0;
      const talk = (): Promise<void> => {
        began += 1;
        return expect.poll(() => began, { timeout: 100_000, interval: 5 }).toBeGreaterThanOrEqual(3);
      };
      const requests = turns(all, 12).map((locks, i) => dial(locks, db, `callee ${i}`, talk));
      const made = (await Promise.all(requests)).filter((number) => number !== null);
      expect(new Set(made)).toEqual(new Set(["139-1", "139-2", "139-3"]));
      const [calls] = await db.query<RowDataPacket[]>("SELECT * FROM calls ORDER BY phone, began_us");
      expect(calls).toHaveLength(made.length);
      calls.slice(1).forEach((next, i) => {
        const before = calls[i] as RowDataPacket;
        if (before["phone"] === next["phone"])
          expect(next["began_us"]).toBeGreaterThanOrEqual(Number(before["ended_us"]));
      });
    });
    const [busy] = await db.query<RowDataPacket[]>("SELECT * FROM phones WHERE busy");
    expect(busy).toEqual([]);
    await db.end();
  });

  it("cron: of five hosts one does the job, also when the others come later (P10)", async () => {
    await replicas(redis.url, 5, async (all) => {
      let done = 0;
      const job = async (): Promise<void> => void (done += 1);
      const first = await Promise.all(all.slice(0, 4).map((locks) => nightly(locks, job)));
      expect(first.filter(Boolean)).toEqual([true]);
      expect(await nightly(all[4] as Locks, job)).toBe(false);
      expect(done).toBe(1);
    });
  });

  it("leader: one writes at a time, the next takes over, and terms only grow (P1, P3)", async () => {
    await replicas(redis.url, 3, async (all) => {
      const beats: Beat[] = [];
      const elections = all.map((locks, i) => campaign(locks, `replica ${i}`, (beat) => beats.push(beat)));
      for (const _ of all) {
        await expect
          .poll(() => elections.filter(({ isLeader }) => isLeader).length, { timeout: 100_000 })
          .toBe(1);
        const seen = beats.length;
        await expect.poll(() => beats.length, { timeout: 100_000 }).toBeGreaterThan(seen);
        const leader = elections.findIndex(({ isLeader }) => isLeader);
        await elections.splice(leader, 1)[0]?.close();
      }
      const terms = [...new Set(beats.map(({ term }) => term))];
      expect(terms).toHaveLength(3);
      expect(terms).toEqual(terms.toSorted((a, b) => (a < b ? -1 : 1)));
      for (const term of terms)
        expect(new Set(beats.filter((beat) => beat.term === term).map(({ replica }) => replica)).size).toBe(
          1,
        );
    });
  });

  it("quota: the API never has to refuse, and would without the semaphore (P9)", async () => {
    const api = await quotaServer(ALLOWED);
    const url = `http://127.0.0.1:${(api.address() as AddressInfo).port}`;
    await replicas(redis.url, 3, async (all) => {
      const polite = await Promise.all(turns(all, 12).map((locks) => call(locks, url)));
      expect(polite).toEqual(polite.map(() => 200));
      const rude = await Promise.all(polite.map(async () => (await fetch(`${url}/slow`)).status));
      expect(rude).toContain(429);
    });
    api.close();
    api.closeAllConnections();
  });

  it("transfer: crossing transfers neither deadlock nor make or lose money (P9, P15)", async () => {
    const client = createClient({ url: redis.url });
    await client.connect();
    const accounts = client as unknown as Accounts;
    const names = ["a", "b", "c"] as const;
    for (const name of names) await client.set(name, "100");
    await replicas(redis.url, 3, async (all) => {
      const moves = turns(all, 30).map((locks, i) =>
        transfer(
          locks,
          accounts,
          names[i % 3] as string,
          names[(i + 1 + (i % 2)) % 3] as string,
          7 + (i % 5),
        ),
      );
      expect(await Promise.all(moves)).toContain(true);
    });
    const left = (await Promise.all(names.map((name) => client.get(name)))).map(Number);
    expect(left.reduce((a, b) => a + b)).toBe(300);
    client.destroy();
  });

  it("invoice: numbers have no gaps although some transactions roll back, and nothing stays locked", async () => {
    const pool = openPool(postgres.url, { max: 8 });
    await pool.query(INVOICES);
    await replicas(postgres.url, 2, async (all) => {
      let asked = 0;
      const approve = (): boolean => (asked += 1) % 3 !== 0;
      const made = await Promise.allSettled(
        turns(all, 12).map((locks, i) => invoice(locks, pool, `customer ${i}`, approve)),
      );
      const numbers = made.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
      expect(numbers.toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
      for (const one of made)
        if (one.status === "rejected") expect(String(one.reason)).toMatch(/was not approved/);
      const stored = await pool.query<{ number: number }>("SELECT number FROM invoices ORDER BY number");
      expect(stored.rows.map(({ number }) => number)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
      expect(await all[0]?.inspect("invoice-number")).toBeNull();
    });
    await pool.end();
  });
});

/** Answers after a moment, and refuses what comes while so many are being answered. */
function quotaServer(allowed: number): Promise<Server> {
  let now = 0;
  const server = createServer((request, response) => {
    now += 1;
    const status = now > allowed ? 429 : 200;
    setTimeout(
      () => {
        now -= 1;
        response.writeHead(status).end("sunny");
      },
      request.url === "/slow" ? 500 : 20,
    );
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}
