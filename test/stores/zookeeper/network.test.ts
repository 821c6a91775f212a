// What a network and a server that hangs do to a session: disconnected is not expired, a reply that is lost
// is made good, and nothing is sent late.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { LossReason, OpenStore } from "../../../src/core/store.ts";
import { getChildren, remove, sync } from "../../../src/stores/zookeeper/wire/ops.ts";
import { Session } from "../../../src/stores/zookeeper/wire/session.ts";
import { nodeSystem } from "../../../src/system/node.ts";
import { bareSession, countNodes } from "./bare-session.ts";
import { fencesOf, io, item, request, SESSION_MS, until, ZooKeeperWorld } from "./fixture.ts";
import { StallMeter } from "../../../src/testing/stall-meter.ts";
import { VirtualSystem } from "../../../src/testing/virtual-system.ts";

let world: ZooKeeperWorld;

beforeAll(async () => {
  world = await ZooKeeperWorld.start();
});

afterAll(async () => {
  await world?.stop();
});

/** The nodes of a key and below; 0 when there is none. */
function nodesOf(key: string): Promise<number> {
  return countNodes(world.url, `/t/k${key}`).catch(() => 0);
}

/** As an operator may do by hand. */
async function removePlaces(key: string): Promise<void> {
  const bare = await bareSession(world.url);
  for (const name of await bare.connection.send(getChildren(`/t/k${key}`)))
    await bare.connection.send(remove(`/t/k${key}/${name}`));
  await bare.close();
}

/** So that the containers of the keys are there. */
async function takeAndLeave(store: OpenStore, keys: string | readonly string[]): Promise<void> {
  const one = request(keys);
  await store.release(one, null, { lastFences: await fencesOf(store, one) }, io);
}

describe("a session", () => {
  it("goes on over connections that break, and what it holds stays held", async () => {
    const proxy = await world.proxy();
    const store = await world.through(proxy);
    const one = request("broken");
    const fences = await fencesOf(store, one);
    for (let turn = 0; turn < 5; turn += 1) {
      proxy.drop();
      const [answer] = await store
        .renew([item(one, fences)], io)
        .catch(() => store.renew([item(one, fences)], io));
      expect(answer?.state).toBe("renewed");
    }
    expect(await fencesOf(store, { ...one, seq: 2 })).toEqual(fences);
  });

  it("that breaks under a look tells whoever looked, and nobody else (P17)", async () => {
    const proxy = await world.proxy();
    const store = await world.through(proxy);
    const unheard: unknown[] = [];
    const hear = (reason: unknown): void => void unheard.push(reason);
    process.on("unhandledRejection", hear);
    try {
      proxy.cut("replies");
      const looking = store.attempt(request("looked at", { queue: false }), io);
      proxy.drop();
      await expect(looking).rejects.toThrow();
      await nodeSystem.yield();
      expect(unheard).toEqual([]);
    } finally {
      process.off("unhandledRejection", hear);
      proxy.heal();
    }
  });

  it("leaves a server that hangs within its read timeout and goes on at another, with what it holds", async () => {
    const proxies = [await world.proxy(), await world.proxy()];
    const store = await world.through(...proxies);
    const one = request("hung");
    const fences = await fencesOf(store, one);
    const hung = proxies.find(({ connections }) => connections > 0);
    const meter = new StallMeter();
    hung?.cut();
    await until("a renewal by another server", async () => {
      const answers = await store.renew([item(one, fences)], io).catch(() => []);
      return answers[0]?.state === "renewed";
    });
    // A quarter of the session timeout is the aim; the session itself must have outlived it.
    expect(meter.workingMs()).toBeLessThan(SESSION_MS);
    hung?.heal();
    expect(await store.owns(one, null, io)).toBe(true);
  });

  it("replaces a connection that is half open after 3 s, however long the session may last", async () => {
    const proxy = await world.proxy();
    const system = new VirtualSystem();
    const servers = [{ host: "127.0.0.1", port: proxy.port }];
    const quiet = { started: () => {}, expired: () => {}, event: () => {} };
    const session = new Session({ servers, timeoutMs: 40_000, tls: null, digest: null, system }, quiet);
    const { signal } = new AbortController();
    const connection = await session.ready(signal);
    proxy.halfOpen();
    const asked = connection.send(sync("/")).catch((error: unknown) => String(error));
    await system.advance(3_100);
    expect(await Promise.race([asked, Promise.resolve("no answer")])).toMatch(/has said nothing/);
    const next = await session.ready(signal);
    expect(next.sessionId).toBe(connection.sessionId);
    expect(await next.send(sync("/"))).toBe("/");
    await session.close();
  });

  it("that has expired is lost with all that it held, and another one begins", async () => {
    const proxy = await world.proxy();
    const store = await world.through(proxy);
    const losses: [string, LossReason][] = [];
    store.onLoss?.((id, reason) => losses.push([id, reason]));
    const held = request("expired");
    const fences = await fencesOf(store, held);
    const waiting = request("elsewhere");
    const other = await world.open();
    await fencesOf(other, request("elsewhere"));
    expect(await store.attempt(waiting, io)).toHaveProperty("busy");
    let woken = 0;
    await store.subscribe?.(waiting, () => (woken += 1));
    proxy.cut();
    const next = request("expired");
    await until("the next grant", async () => "granted" in (await other.attempt(next, io)));
    proxy.heal();
    await until("the news of the loss", () => losses.length > 0);
    expect(losses).toEqual([[held.id, "session"]]);
    expect((await store.renew([item(held, fences)], io))[0]).toMatchObject({ state: "lost" });
    expect(await store.owns(held, null, io)).toBe(false);
    expect(await store.attempt({ ...held, seq: 2 }, io)).toEqual({ ended: true });
    expect(await store.release(held, null, { lastFences: fences }, io)).toBe("not-held");
    await until("the wake of who waits", () => woken > 0);
    expect(await store.attempt({ ...waiting, seq: 2 }, io)).toHaveProperty("busy");
    expect((await other.inspect("elsewhere", io))?.waiters).toHaveLength(1);
    const fresh = request("fresh");
    expect((await fencesOf(store, fresh))[0]).toBeGreaterThan(fences[0] as bigint);
  });

  it("says where it could not connect, and names no password", async () => {
    const failed = world.open({ servers: ["127.0.0.1:1", "127.0.0.1:2"], user: "u", password: "secret" });
    const error = await failed.then(
      () => null,
      (reason: unknown) => reason as Error,
    );
    expect(error?.message).toMatch(/127\.0\.0\.1:[12]: connect ECONNREFUSED/);
    expect(error?.message).not.toContain("secret");
  });
});

describe("a reply that is lost", () => {
  it("is made good: the place is found by id and session, and there is only one", async () => {
    const proxy = await world.proxy();
    const store = await world.through(proxy);
    await takeAndLeave(store, "lost");
    const one = request("lost");
    proxy.swallow("replies");
    const lost = store.attempt(one, io).catch((error: unknown) => error);
    await until("the place", async () => (await nodesOf("lost")) === 2);
    proxy.heal();
    expect(await lost).toBeInstanceOf(Error);
    const fences = await fencesOf(store, { ...one, seq: 2 });
    expect(fences[0]).toBeGreaterThan(0n);
    expect(await nodesOf("lost")).toBe(2);
    expect(await store.release(one, null, { lastFences: fences }, io)).toBe("released");
    expect(await nodesOf("lost")).toBe(1);
  });

  it("is undone when nobody wants it any more, for several keys too", async () => {
    const proxy = await world.proxy();
    const store = await world.through(proxy);
    await takeAndLeave(store, ["undone1", "undone2"]);
    const one = request(["undone1", "undone2"]);
    proxy.swallow("replies");
    const lost = store.attempt(one, io).catch((error: unknown) => error);
    await until(
      "the place",
      async () => (await nodesOf("undone1")) === 2 && (await nodesOf("undone2")) === 2,
    );
    proxy.heal();
    await lost;
    await until("the abandonment", () =>
      store.abandon([one], io).then(
        () => true,
        () => false,
      ),
    );
    expect([await nodesOf("undone1"), await nodesOf("undone2")]).toEqual([1, 1]);
    expect(await store.attempt({ ...one, seq: 2 }, io)).toEqual({ ended: true });
  });

  it("is undone when one of several places was taken away meanwhile: all keys or none (P9)", async () => {
    const proxy = await world.proxy();
    const store = await world.through(proxy);
    const keys = ["partly1", "partly2"];
    await takeAndLeave(store, keys);
    const one = request(keys);
    proxy.swallow("replies");
    const lost = store.attempt(one, io).catch((error: unknown) => error);
    await until("the places", async () => (await nodesOf("partly1")) + (await nodesOf("partly2")) === 4);
    await removePlaces("partly1");
    proxy.heal();
    await lost;
    expect(await store.attempt({ ...one, seq: 2 }, io)).toEqual({ ended: true });
    expect([await nodesOf("partly1"), await nodesOf("partly2")]).toEqual([1, 1]);
  });

  it("makes one place, although a second attempt begins while the first still looks for what was made", async () => {
    const proxy = await world.proxy();
    const store = await world.through(proxy);
    await takeAndLeave(store, "twice");
    const one = request("twice");
    proxy.swallow("requests");
    await expect(store.attempt(one, io)).rejects.toBeInstanceOf(Error);
    proxy.heal();
    await until("the connection", () => store.inspect("twice", io).then(() => true));
    const answers = [2, 3].map((seq) => store.attempt({ ...one, seq }, io));
    expect((await Promise.all(answers)).map((answer) => "granted" in answer)).toEqual([true, true]);
    expect(await nodesOf("twice")).toBe(2);
    await store.release(one, null, { lastFences: [] }, io);
    expect(await nodesOf("twice")).toBe(1);
  });

  it("of a release is made good by abandoning", async () => {
    const proxy = await world.proxy();
    const store = await world.through(proxy);
    const one = request("released");
    const fences = await fencesOf(store, one);
    proxy.swallow("replies");
    const released = store.release(one, null, { lastFences: fences }, io).catch((error: unknown) => error);
    await until("the end of the place", async () => (await nodesOf("released")) === 1);
    proxy.heal();
    expect(await released).toBeInstanceOf(Error);
    await until("the abandonment", () =>
      store.abandon([one], io).then(
        () => true,
        () => false,
      ),
    );
    expect(await store.owns(one, null, io)).toBe(false);
  });
});

describe("an attempt that is still under way", () => {
  it("leaves nothing behind when its request ends, at whatever moment", async () => {
    const store = await world.open();
    for (let turn = 0; turn < 60; turn += 1) {
      const one = request(turn % 3 === 0 ? [`under-way-${turn}`, "under-way"] : "under-way");
      const answered = store.attempt(one, io).catch(() => null);
      for (let i = 0; i < turn % 12; i += 1) await Promise.resolve();
      if (turn % 4 === 0) await io.sleep(1);
      await store.abandon([one], io);
      await answered;
    }
    expect(await store.inspect("under-way", io)).toBeNull();
  });

  it("without a connection ends with its caller's patience and is never sent", async () => {
    const proxy = await world.proxy();
    const store = await world.through(proxy);
    await fencesOf(store, request("warmer"));
    proxy.cut();
    proxy.drop();
    const impatient = new AbortController();
    const one = request("unsent");
    const asked = store.attempt(one, { ...io, signal: impatient.signal }).catch((error: unknown) => error);
    await io.sleep(50);
    impatient.abort();
    expect(await asked).toBeInstanceOf(Error);
    proxy.heal();
    await until("another connection", () =>
      fencesOf(store, request("after")).then(
        () => true,
        () => false,
      ),
    );
    expect(await nodesOf("unsent")).toBe(0);
  });
});
