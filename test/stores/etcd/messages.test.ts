// Messages that are lost, late or repeated (P8), and how many there are at all.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startEtcd } from "../../../scripts/servers/etcd.ts";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import type { OpenStore } from "../../../src/core/store.ts";
import { Gateway } from "./gateway.ts";
import { creates, makeIo, openOn, request, TamperedClient, until } from "./fixture.ts";

let server: RunningServer;
let gateway: Gateway;
const opened: OpenStore[] = [];

beforeAll(async () => {
  server = await startEtcd({ own: true });
  gateway = new Gateway(`127.0.0.1:${server.port}`);
});

afterAll(async () => {
  await Promise.all(opened.map((store) => store.close()));
  await server?.stop();
});

async function world(order?: "exclusive"): Promise<{ tampered: TamperedClient; store: OpenStore }> {
  const tampered = new TamperedClient(server.url);
  const store = await openOn(tampered.client, order === undefined ? {} : { order });
  opened.push(store);
  return { tampered, store };
}

describe.each(["fifo", "exclusive"] as const)("with order=%s", (order) => {
  const open = (): ReturnType<typeof world> => world(order === "fifo" ? undefined : order);

  it("an attempt whose reply was lost is adopted by the next one, under one fence (P8)", async () => {
    const { tampered, store } = await open();
    const asked = request(`adopted-${order}`);
    tampered.loseReply();
    await expect(store.attempt(asked, makeIo())).rejects.toMatchObject({ code: "ERR_STORE_UNAVAILABLE" });
    const answer = await store.attempt({ ...asked, seq: 2 }, makeIo());
    expect(answer).toHaveProperty("granted");
    expect(await gateway.keys(`t/k/adopted-${order}/`)).toHaveLength(1);
    await store.abandon([asked], makeIo());
    expect(await gateway.keys("t/k/")).toEqual([]);
  });

  it("an attempt that arrives after its id was abandoned changes nothing, whatever comes between (P8)", async () => {
    const { tampered, store } = await open();
    const asked = request(`late-${order}`);
    const arrive = tampered.delay();
    await expect(store.attempt(asked, makeIo())).rejects.toThrow(/on its way/);
    await store.abandon([asked], makeIo());
    expect(await arrive()).toMatchObject({ succeeded: false });
    expect(await gateway.keys("t/k/")).toEqual([]);
    expect(await store.attempt({ ...asked, seq: 2 }, makeIo())).toEqual({ ended: true });
  });

  it("an attempt that arrives after a later one of its id was granted and released changes nothing (P8)", async () => {
    const { tampered, store } = await open();
    const asked = request(`overtaken-${order}`);
    const arrive = tampered.delay();
    await expect(store.attempt(asked, makeIo())).rejects.toThrow(/on its way/);
    const answer = await store.attempt({ ...asked, seq: 2 }, makeIo());
    if (!("granted" in answer)) throw new Error("it was not granted");
    const { cookie, fences } = answer.granted;
    expect(await store.release({ ...asked, seq: 2 }, cookie, { lastFences: fences }, makeIo())).toBe(
      "released",
    );
    expect(await arrive()).toMatchObject({ succeeded: false });
    expect(await gateway.keys("t/k/")).toEqual([]);
  });

  it("a mark of an ended id goes with the lease that its late message carries", async () => {
    const { tampered, store } = await open();
    const asked = request(`mark-${order}`);
    const arrive = tampered.delay();
    await expect(store.attempt(asked, makeIo())).rejects.toThrow(/on its way/);
    await store.abandon([asked], makeIo());
    expect((await gateway.keys("t/x/")).filter((name) => name.includes(asked.id))).toHaveLength(1);
    await store.close();
    await until("the end of the mark", async () =>
      (await gateway.keys("t/x/")).every((name) => !name.includes(asked.id)),
    );
    await expect(arrive()).rejects.toThrow();
    expect(await gateway.keys("t/k/")).toEqual([]);
  });
});

/** True for the second argument that fits. */
function second<T>(fits: (one: T) => boolean): (one: T) => boolean {
  let count = 0;
  return (one) => {
    if (fits(one)) count += 1;
    return count === 2;
  };
}

describe("a place in line", () => {
  it("that was given by a message whose reply was lost is kept (P12)", async () => {
    const { tampered, store } = await world();
    const [holder, first, next] = [request("place"), request("place"), request("place")];
    const held = await store.attempt(holder, makeIo());
    if (!("granted" in held)) throw new Error("it was not granted");
    // Its first transaction asks for a free key; the one that puts it in line is the second.
    tampered.loseReply(second(creates));
    await expect(store.attempt(first, makeIo())).rejects.toThrow(/lost/);
    expect(await store.attempt(next, makeIo())).toHaveProperty("busy");
    await store.release(holder, held.granted.cookie, { lastFences: held.granted.fences }, makeIo());
    expect(await store.attempt({ ...next, seq: 2 }, makeIo())).toHaveProperty("busy");
    expect(await store.attempt({ ...first, seq: 2 }, makeIo())).toHaveProperty("granted");
    for (const one of [first, next]) await store.abandon([one], makeIo());
  });

  it("whose message arrives after the wait was given up is not taken (P8, P12)", async () => {
    const { tampered, store } = await world();
    const [holder, waiter] = [request("gone"), request("gone")];
    expect(await store.attempt(holder, makeIo())).toHaveProperty("granted");
    const arrive = tampered.delay(second(creates));
    await expect(store.attempt(waiter, makeIo())).rejects.toThrow(/on its way/);
    await store.abandon([waiter], makeIo());
    expect(await arrive()).toMatchObject({ succeeded: false });
    expect(await gateway.keys("t/k/gone/")).toHaveLength(1);
    await store.abandon([holder], makeIo());
  });

  it("is given up although its attempt goes on meanwhile (P8)", async () => {
    const { tampered, store } = await world();
    const [holder, waiter] = [request("meanwhile"), request("meanwhile")];
    expect(await store.attempt(holder, makeIo())).toHaveProperty("granted");
    const abandoned: Promise<unknown>[] = [];
    tampered.around = (send, txn) => {
      if (!creates(txn)) return send();
      tampered.around = null;
      return send().finally(() => {
        abandoned.push(store.abandon([waiter], makeIo()));
      });
    };
    expect(await store.attempt(waiter, makeIo())).toEqual({ ended: true });
    await Promise.all(abandoned);
    expect(await gateway.keys("t/k/meanwhile/")).toHaveLength(1);
    await store.abandon([holder], makeIo());
  });
});

describe("an uncontended lock", () => {
  it("costs one transaction to acquire and one to release, and one lease for all locks of a ttl", async () => {
    const { tampered, store } = await world();
    const cycle = async (key: string): Promise<void> => {
      const asked = request(key);
      const answer = await store.attempt(asked, makeIo());
      if (!("granted" in answer)) throw new Error("it was not granted");
      await store.release(asked, answer.granted.cookie, { lastFences: answer.granted.fences }, makeIo());
    };
    await cycle("first");
    const before = { ...tampered.counts };
    for (let i = 0; i < 10; i += 1) await cycle(`key-${i}`);
    expect((tampered.counts["txn"] ?? 0) - (before["txn"] ?? 0)).toBe(20);
    expect(tampered.counts["grantLease"]).toBe(1);
    expect(tampered.counts["range"] ?? 0).toBe(0);
  });

  it("is renewed with many others by one keep-alive and one read", async () => {
    const { tampered, store } = await world();
    const asked = Array.from({ length: 50 }, (_none, at) => request(`many-${at}`));
    const items = [];
    for (const one of asked) {
      const answer = await store.attempt(one, makeIo());
      if (!("granted" in answer)) throw new Error("it was not granted");
      const { cookie, fences } = answer.granted;
      items.push({ request: one, cookie, ttlMs: one.ttlMs, lastFences: fences, label: one.label });
    }
    const before = { ...tampered.counts };
    const answers = await store.renew(items, makeIo());
    expect(answers.map(({ state }) => state)).toEqual(asked.map(() => "renewed"));
    expect((tampered.counts["txn"] ?? 0) - (before["txn"] ?? 0)).toBe(1);
    expect((tampered.counts["keepAlive"] ?? 0) - (before["keepAlive"] ?? 0)).toBe(1);
    for (const one of asked) await store.abandon([one], makeIo());
  });
});

describe("both orders", () => {
  it("exclude each other on one key (P1)", async () => {
    const [fifo, exclusive] = [await world(), await world("exclusive")];
    const [one, two] = [request("both"), request("both")];
    expect(await fifo.store.attempt(one, makeIo())).toHaveProperty("granted");
    expect(await exclusive.store.attempt(two, makeIo())).toHaveProperty("busy");
    await fifo.store.abandon([one], makeIo());
    expect(await exclusive.store.attempt({ ...two, seq: 2 }, makeIo())).toHaveProperty("granted");
    expect(await fifo.store.attempt(request("both", { queue: false }), makeIo())).toHaveProperty("busy");
    await exclusive.store.abandon([two], makeIo());
  });
});

describe("a closed store", () => {
  it("leaves neither names nor leases (P16)", async () => {
    const before = await gateway.leases();
    const { store } = await world();
    await store.attempt(request("left"), makeIo());
    await store.attempt(request("left"), makeIo());
    await store.attempt(request("left", { ttlMs: 3_000 }), makeIo());
    expect((await gateway.leases()).length).toBeGreaterThan(before.length);
    await store.close();
    expect((await gateway.leases()).filter((id) => !before.includes(id))).toEqual([]);
    expect(await gateway.keys("t/k/left/")).toEqual([]);
  });
});
