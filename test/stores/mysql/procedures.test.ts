// Races and rows at the edge of what the procedures allow, each brought about step by step.

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { MariadbNode } from "../../../scripts/servers/mariadb-pair.ts";
import { freePort } from "../../../scripts/servers/ports.ts";
import type { OpenStore } from "../../../src/core/store.ts";
import { UnsafeStoreError } from "../../../src/index.ts";
import { loadMysql2, Mysql2Port } from "../../../src/stores/mysql/client/mysql2.ts";
import type { SqlConnection } from "../../../src/stores/mysql/client/port.ts";
import { parseUrl } from "../../../src/stores/mysql/options.ts";
import { sql } from "../../../src/stores/mysql/sql.ts";
import { openTableOn } from "../../../src/stores/mysql/store.ts";
import { nodeSystem } from "../../../src/system/node.ts";
import { Asking } from "./client.ts";
import { fenceOf, io, openStore, relayed, request, until } from "./fixture.ts";

const KILLS = 300;

let node: MariadbNode;
let asking: Asking;
const opened: OpenStore[] = [];

const open = async (namespace?: string): Promise<OpenStore> => {
  const store = await openStore({ url: node.url }, namespace);
  opened.push(store);
  return store;
};

/** A store whose statements go through `run`. */
async function openThrough(
  run: (
    one: SqlConnection,
    ...statement: Parameters<SqlConnection["run"]>
  ) => ReturnType<SqlConnection["run"]>,
): Promise<OpenStore> {
  const port = new Mysql2Port(await loadMysql2(), parseUrl(node.url).login);
  const { hosts } = port;
  const connect = async (host: (typeof hosts)[number]): Promise<SqlConnection> => {
    const one = await port.connect(host);
    return relayed(one, (text, values) => run(one, text, values));
  };
  const env = { namespace: "t", system: nodeSystem, allow: [] };
  const options = { maxTtlMs: 60_000, createSchema: true };
  const store = await openTableOn({ hosts, connect, close: () => port.close() }, options, env);
  opened.push(store);
  return store;
}

beforeAll(async () => {
  node = new MariadbNode(await freePort(), mkdtempSync(join(tmpdir(), "holdfast-mysql-edges-")), 1, {});
  await node.start();
  asking = await Asking.open(node.url);
});

afterEach(async () => {
  for (const store of opened.splice(0)) await store.close();
});

afterAll(async () => {
  asking?.close();
  await node?.stop();
});

describe("a wake-up", () => {
  it("that meets the session while it reads does not end it (P11)", async () => {
    const store = await open();
    const listening = (): Promise<unknown> =>
      asking.one("SELECT id FROM information_schema.processlist WHERE info LIKE 'SELECT GET_LOCK(%'");
    let session: unknown;
    await until("a session that listens", async () => (session = await listening()) !== undefined);
    const wakers = await Promise.all([1, 2, 3].map(() => Asking.open(node.url)));
    const wake = async (waker: Asking): Promise<void> => {
      for (let i = 0; i < KILLS; i += 1) await waker.run(`KILL QUERY ${Number(session)}`).catch(() => {});
    };
    await Promise.all(wakers.map(wake));
    for (const waker of wakers) waker.close();
    await until("the next wait", async () => (await listening()) !== undefined);
    expect(await listening()).toBe(session);
    expect((await store.check(io)).map(({ id }) => id)).not.toContain("no-push");
  });

  it("that comes before the answer of the attempt which it is for is not lost (P11)", async () => {
    const holder = await open();
    const held = request("early");
    const fence = await fenceOf(holder, held);
    let [delay, isRead] = [false, false];
    const late = await openThrough(async (one, text, values) => {
      const answer = await one.run(text, values);
      if (text === sql["notification_read"] && answer.rows.length > 0) isRead = true;
      if (text === sql["attempt"] && delay) {
        delay = false;
        await holder.release(held, null, { lastFences: [fence] }, io);
        await until("the notification", () => isRead);
      }
      return answer;
    });
    delay = true;
    const waiter = request("early");
    expect(await late.attempt(waiter, io)).toHaveProperty("busy");
    await late.subscribe?.(waiter, () => {});
    expect(await late.attempt({ ...waiter, seq: 2 }, io)).toHaveProperty("granted");
  });

  it("tells of a revocation that is written while another one is read (P17)", async () => {
    const admin = await open();
    const lost: string[] = [];
    let next: (() => Promise<unknown>) | null = null;
    const store = await openThrough(async (one, text, values) => {
      const answer = await one.run(text, values);
      const revokeNext = next;
      if (text !== sql["notification_read"] || answer.rows.length === 0 || revokeNext === null) return answer;
      next = null;
      await revokeNext();
      return answer;
    });
    store.onLoss?.((id) => void lost.push(id));
    const [first, second] = [request("revoked:1"), request("revoked:2")];
    for (const one of [first, second]) await fenceOf(store, one);
    const revocation = { reason: "because", force: false };
    next = () => admin.revoke("revoked:2", revocation, io);
    await admin.revoke("revoked:1", revocation, io);
    await until("both", () => lost.length >= 2);
    expect(new Set(lost)).toEqual(new Set([first.id, second.id]));
  });
});

describe("an attempt", () => {
  it.each(["acquire_fast", "attempt"] as const)(
    "(%s) that arrives after its request was abandoned changes nothing (P8)",
    async (statement) => {
      let arrive = (): void => {};
      const onItsWay = new Promise<void>((resolve) => (arrive = resolve));
      let isSent = false;
      const store = await openThrough(async (one, text, values) => {
        if (text !== sql[statement] || isSent) return one.run(text, values);
        isSent = true;
        await onItsWay;
        return one.run(text, values);
      });
      const other = await open();
      const late = request(`late:${statement}`, { seq: statement === "attempt" ? 2 : 1 });
      const before = request(late.keys);
      await other.release(before, null, { lastFences: [await fenceOf(other, before)] }, io);
      const attempt = store.attempt(late, io);
      await until("the statement", () => isSent);
      expect(await store.abandon([late], io)).toEqual([]);
      arrive();
      expect(await attempt).toEqual({ ended: true });
      expect(await other.inspect(late.keys[0] as string, io)).toBeNull();
    },
  );
});

describe("a fence", () => {
  it.each([2n ** 53n - 1n, 2n ** 53n, 2n ** 62n])(
    "that no client can tell from its neighbours (%s) is given to nobody (P3, P19)",
    async (fence) => {
      const store = await open();
      const first = request(`far:${fence}`);
      const near = await fenceOf(store, first);
      await store.release(first, null, { lastFences: [near] }, io);
      await asking.run("UPDATE holdfast_locks SET fence = ? WHERE lock_key = ?", [fence, first.keys[0]]);
      await expect(store.attempt(request(first.keys), io)).rejects.toBeInstanceOf(UnsafeStoreError);
    },
  );
});

describe("cleaning", () => {
  const plant = async (namespace: string, change: string): Promise<void> => {
    const store = await open(namespace);
    const one = request("old");
    await store.release(one, null, { lastFences: [await fenceOf(store, one)] }, io);
    await asking.run(`UPDATE holdfast_locks SET over_us = 1, ${change} WHERE namespace = ?`, [namespace]);
  };
  const count = async (namespace: string): Promise<number> =>
    Number(await asking.one("SELECT COUNT(*) FROM holdfast_locks WHERE namespace = ?", [namespace]));

  it("passes over rows that must stay, and goes on with those of other namespaces (P16)", async () => {
    await plant("stays", "ended_us = 9000000000000000");
    await plant("goes", "over_us = 2");
    await plant("goes-too", "over_us = 3");
    for (let i = 0; i < 3; i += 1) await asking.rows(sql["clean"]);
    expect([await count("stays"), await count("goes"), await count("goes-too")]).toEqual([1, 0, 0]);
  });

  it("leaves a damaged row where it is, so that only its own key suffers (P19)", async () => {
    await plant("hurt", `fence = ${2n ** 62n}`);
    await asking.rows(sql["clean"]);
    const store = await open("hurt");
    expect((await fenceOf(store, request("healthy"))) < 2n ** 53n).toBe(true);
  });
});
