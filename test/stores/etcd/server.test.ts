// Facts about etcd 3.4 that the product leans on, asked of a real server through its own gateway.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startEtcd } from "../../../scripts/servers/etcd.ts";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import { b64, Gateway, type Json } from "./gateway.ts";
import { StallMeter } from "../../../src/testing/stall-meter.ts";

let server: RunningServer;
let etcd: Gateway;

beforeAll(async () => {
  server = await startEtcd({ own: true });
  etcd = new Gateway(`127.0.0.1:${server.port}`);
});

afterAll(async () => {
  await server?.stop();
});

interface Kv {
  readonly key: string;
  readonly create_revision: string;
  readonly mod_revision: string;
  readonly lease?: string;
}

async function get(key: string): Promise<Kv | undefined> {
  const { kvs = [] } = await etcd.ask<{ kvs?: Kv[] }>("kv/range", { key: b64(key) });
  return kvs[0];
}

async function grant(id: number, ttl: number): Promise<number> {
  const { TTL } = await etcd.ask<{ TTL: string }>("lease/grant", { ID: id, TTL: ttl });
  return Number(TTL);
}

/** 0 when there is no such lease. */
async function keepAlive(id: number): Promise<number> {
  const { result } = await etcd.ask<{ result: { TTL?: string } }>("lease/keepalive", { ID: id });
  return Number(result.TTL ?? 0);
}

async function compares(compare: Json): Promise<boolean> {
  const { succeeded = false } = await etcd.ask<{ succeeded?: boolean }>("kv/txn", { compare: [compare] });
  return succeeded;
}

describe("etcd 3.4", () => {
  it("is version 3.4 or later", async () => {
    const { version } = await etcd.ask<{ version: string }>("maintenance/status");
    expect(version).toMatch(/^3\.([4-9]|\d\d)\./);
  });

  it("compares an empty range as creation revision 0, and otherwise every key of it", async () => {
    const span = { key: b64("c/"), range_end: b64("c0"), target: "CREATE" };
    const none = { ...span, result: "EQUAL", create_revision: "0" };
    expect(await compares(none)).toBe(true);
    await etcd.put("c/1", "x");
    const seen = await etcd.revision();
    const older = { ...span, result: "LESS", create_revision: String(seen + 1) };
    expect([await compares(none), await compares(older)]).toEqual([false, true]);
    await etcd.put("c/1", "written again");
    expect(await compares(older)).toBe(true);
    await etcd.put("c/2", "y");
    expect(await compares(older)).toBe(false);
  });

  it("keeps a key's creation revision when it is written again, also with another lease", async () => {
    await grant(101, 60);
    await grant(102, 60);
    await etcd.put("m", "1", "101");
    const before = await get("m");
    await etcd.put("m", "2", "102");
    const after = await get("m");
    expect(after?.create_revision).toBe(before?.create_revision);
    expect(Number(after?.mod_revision)).toBeGreaterThan(Number(before?.mod_revision));
    await etcd.ask("lease/revoke", { ID: 101 });
    expect(await get("m")).toMatchObject({ lease: "102" });
    await etcd.ask("lease/revoke", { ID: 102 });
    expect(await get("m")).toBeUndefined();
  });

  it("gives all keys that one transaction creates one creation revision, which is that of its answer", async () => {
    const { header } = await etcd.ask<{ header: { revision: string } }>("kv/txn", {
      success: ["t/1", "t/2"].map((key) => ({ request_put: { key: b64(key), value: b64("x") } })),
    });
    for (const key of ["t/1", "t/2"]) expect((await get(key))?.create_revision).toBe(header.revision);
  });

  it("refuses a transaction with a lease that is not there, as a whole", async () => {
    const put = (key: string, lease?: number): Json => ({
      request_put: { key: b64(key), value: b64("x"), ...(lease === undefined ? {} : { lease }) },
    });
    await expect(etcd.ask("kv/txn", { success: [put("l/1"), put("l/2", 999)] })).rejects.toThrow(
      "etcdserver: requested lease not found",
    );
    expect(await etcd.keys("l/")).toEqual([]);
  });

  it("takes ids of leases that clients choose, refuses one that is taken, and has a least ttl of its own", async () => {
    expect(await grant(2 ** 52 - 1, 7)).toBe(7);
    await expect(grant(2 ** 52 - 1, 7)).rejects.toThrow("lease already exists");
    expect(await grant(103, 1)).toBeGreaterThanOrEqual(1);
  });

  it("starts a lease anew with every keep-alive, and answers one for a lease that is not there with no ttl", async () => {
    await grant(104, 30);
    expect(await keepAlive(104)).toBe(30);
    expect(await keepAlive(998)).toBe(0);
  });

  it("takes keys away with their lease, not before its ttl and soon after", async () => {
    const sentAtMs = performance.now();
    const meter = new StallMeter();
    const ttl = await grant(105, 1);
    await etcd.put("e", "x", "105");
    while ((await get("e")) !== undefined) await sleep(10);
    const tookMs = performance.now() - sentAtMs;
    expect(tookMs).toBeGreaterThanOrEqual(ttl * 1_000);
    expect(meter.workingMs()).toBeLessThan(ttl * 1_000 + 5_000);
    expect(await keepAlive(105)).toBe(0);
  });

  it("reads by order of creation, below a creation revision, one at a time", async () => {
    for (const key of ["o/c", "o/a", "o/b"]) await etcd.put(key, "x");
    await etcd.put("o/c", "written again");
    const span = { key: b64("o/"), range_end: b64("o0"), sort_target: "CREATE", limit: 1 };
    const first = async (more: Json): Promise<string> => {
      const { kvs = [] } = await etcd.ask<{ kvs?: Kv[] }>("kv/range", { ...span, ...more });
      return Buffer.from(kvs[0]?.key ?? "", "base64").toString();
    };
    expect(await first({ sort_order: "ASCEND" })).toBe("o/c");
    const last = (await get("o/b"))?.create_revision ?? "0";
    const before = { sort_order: "DESCEND", max_create_revision: String(Number(last) - 1) };
    expect(await first(before)).toBe("o/a");
  });

  it("ends a watch that asks for a revision which was compacted away, and names the oldest that is left", async () => {
    await etcd.put("w", "1");
    const since = await etcd.revision();
    for (const value of ["2", "3", "4"]) await etcd.put("w", value);
    await etcd.compact();
    const told = await watched(
      { key: b64("w"), start_revision: String(since) },
      (one) => one["canceled"] === true,
    );
    expect(Number(told["compact_revision"])).toBeGreaterThan(since);
  });

  it("tells a watch that wants no writes of deletes only, under the id that its client has chosen", async () => {
    await etcd.put("f", "1");
    const since = await etcd.revision();
    await etcd.put("f", "2");
    await etcd.delete("f");
    const wish = { key: b64("f"), start_revision: String(since + 1), filters: ["NOPUT"], watch_id: "77" };
    const told = await watched(wish, (one) => one["events"] !== undefined);
    expect(told).toMatchObject({ watch_id: "77", events: [{ type: "DELETE" }] });
  });
});

/** The first answer of a watch that fits. */
async function watched(create: Json, fits: (answer: Json) => boolean): Promise<Json> {
  const stop = new AbortController();
  const response = await fetch(`http://127.0.0.1:${server.port}/v3/watch`, {
    method: "POST",
    body: JSON.stringify({ create_request: create }),
    signal: stop.signal,
  });
  let text = "";
  try {
    for await (const chunk of response.body ?? []) {
      text += Buffer.from(chunk as Uint8Array).toString();
      const lines = text.split("\n").slice(0, -1);
      const answers = lines.map((line) => (JSON.parse(line) as { result: Json }).result);
      const found = answers.find(fits);
      if (found !== undefined) return found;
    }
  } finally {
    stop.abort();
  }
  throw new Error(`the watch ended: ${text}`);
}
