// The limit of a ZooKeeper packet (jute.maxbuffer, 1,048,575 bytes by default). A server closes a connection
// that sends more, and cannot read its own log when the end of one session takes more than twice as much.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freePort } from "../../../scripts/servers/ports.ts";
import { InvalidArgumentError } from "../../../src/core/errors.ts";
import type { OpenStore, Request } from "../../../src/core/store.ts";
import { fencesOf, io, item, request, until, ZooKeeperWorld } from "./fixture.ts";

/** Small, so that few waiters are enough to pass it. */
const SMALL_BUFFER = 200_000;
const AT_ONCE = 100;
const MOST_RECONNECTS = 10;

function longKey(at: number, length = 110): string {
  return `${at}:`.padEnd(length, "x");
}

/** All requests, some at a time. */
async function attemptAll(store: OpenStore, requests: readonly Request[]): Promise<string[]> {
  const answers: string[] = [];
  for (let at = 0; at < requests.length; at += AT_ONCE) {
    const some = requests.slice(at, at + AT_ONCE).map((one) => store.attempt(one, io));
    for (const answer of await Promise.all(some)) answers.push(Object.keys(answer)[0] as string);
  }
  return answers;
}

describe("a server with a small packet limit", () => {
  let world: ZooKeeperWorld;

  beforeAll(async () => {
    world = await ZooKeeperWorld.start({ java: [`-Djute.maxbuffer=${SMALL_BUFFER}`] });
  });

  afterAll(async () => {
    await world?.stop();
  });

  it("takes a session back whose watches are longer than one packet", async () => {
    const proxy = await world.proxy();
    const [holder, store] = [await world.open(), await world.through(proxy)];
    const keys = Array.from({ length: 1_500 }, (_none, at) => longKey(at));
    const held = keys.map((key) => request(key));
    expect(new Set(await attemptAll(holder, held))).toEqual(new Set(["granted"]));
    const waiting = keys.map((key) => request(key));
    expect(new Set(await attemptAll(store, waiting))).toEqual(new Set(["busy"]));
    const woken = new Set<string>();
    for (const one of waiting) await store.subscribe?.(one, () => woken.add(one.id));
    const { accepted } = proxy;
    proxy.drop();
    const own = request("own");
    await until("a grant after the reconnection", () =>
      fencesOf(store, own).then(
        () => true,
        () => false,
      ),
    );
    // One, and some more on a machine so busy that connecting takes longer than its timeout.
    expect(proxy.accepted - accepted).toBeLessThanOrEqual(MOST_RECONNECTS);
    // The last watches came with the last packet.
    for (const at of [0, keys.length - 1]) {
      await holder.release(held[at] as Request, null, { lastFences: [] }, io);
      await until("the wake-up", () => woken.has((waiting[at] as Request).id));
    }
  });

  it("that closes every connection is not asked for another at once", async () => {
    const proxy = await world.proxy();
    const store = await world.through(proxy);
    await fencesOf(store, request("kept alive"));
    const { accepted } = proxy;
    const startMs = performance.now();
    proxy.closeAfterFirstReply();
    await until("15 connections", () => proxy.accepted >= accepted + 15);
    // Pauses of 10 ms at least, and soon of 125 ms at least.
    expect(performance.now() - startMs).toBeGreaterThan(1_000);
    proxy.heal();
    await until("a grant", () =>
      fencesOf(store, request("afterwards")).then(
        () => true,
        () => false,
      ),
    );
  });
});

describe("a call for many keys", () => {
  let world: ZooKeeperWorld;

  beforeAll(async () => {
    world = await ZooKeeperWorld.start();
  });

  afterAll(async () => {
    await world?.stop();
  });

  it("that does not fit in a packet is rejected by name, and the session goes on", async () => {
    const proxy = await world.proxy();
    const store = await world.through(proxy);
    const held = request("other");
    const fences = await fencesOf(store, held);
    const keys = Array.from({ length: 250 }, (_none, at) => longKey(at, 40));
    const failed = await store.attempt(request(keys), io).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(InvalidArgumentError);
    expect(String(failed)).toMatch(/250 keys.*1,048,575 bytes.*jute\.maxbuffer.*fewer keys/);
    expect(proxy.accepted).toBe(1);
    expect(await store.renew([item(held, fences)], io)).toMatchObject([{ state: "renewed" }]);
    expect(await fencesOf(store, request(keys.slice(0, 100)))).toHaveLength(100);
  });

  it("works with long keys, which are listed and inspected as they are", async () => {
    const store = await world.open({}, "long keys");
    const keys = [longKey(1, 4_096), "ü".repeat(2_048), "short"];
    const held = request(keys);
    const fences = await fencesOf(store, held);
    expect(fences).toHaveLength(3);
    for (const key of keys) {
      expect((await store.inspect(key, io))?.holders).toMatchObject([{ label: held.label }]);
      expect(await store.attempt(request(key, { queue: false }), io)).toHaveProperty("busy");
    }
    const listed: string[] = [];
    for await (const { key } of store.list({ prefix: "", limit: 10 }, io)) listed.push(key);
    expect(listed.sort()).toEqual([...keys].sort());
    const kept = request(longKey(2, 4_096), { keepMs: 300 });
    await store.release(kept, null, { lastFences: await fencesOf(store, kept) }, io);
    await until(
      "the end of the record",
      async () => (await store.inspect(kept.keys[0] as string, io)) === null,
    );
    await store.release(held, null, { lastFences: fences }, io);
    expect(await store.inspect(keys[0] as string, io)).toBeNull();
  });
});

describe("the keys of a killed process", () => {
  it("leave a server that can start again, however many and long they are", async () => {
    const dataFolder = mkdtempSync(join(tmpdir(), "holdfast-zookeeper-limits-"));
    const port = await freePort();
    let world = await ZooKeeperWorld.start({ dataFolder, port });
    try {
      const other = await world.open();
      const proxy = await world.proxy();
      const servers = [`127.0.0.1:${proxy.port}`];
      // Long paths, so that few keys reach the limit of a session.
      const chroot = `/${"c".repeat(9_000)}`;
      const store = await world.open({ servers, chroot, sessionTimeout: 2_000 });
      const taken: Request[] = [];
      const rejected = await (async (): Promise<unknown> => {
        for (let at = 0; at < 400; at += 1) {
          const one = request(longKey(at, 4_000));
          try {
            await fencesOf(store, one);
          } catch (error) {
            return error;
          }
          taken.push(one);
        }
        return null;
      })();
      expect(rejected).toMatchObject({ code: "ERR_STORE_UNAVAILABLE", retryable: true });
      expect(String(rejected)).toMatch(/\d+ keys.*per session.*fewer keys at a time/);
      // What is released makes room.
      await store.release(taken.pop() as Request, null, { lastFences: [] }, io);
      const last = request("last");
      await fencesOf(store, last);
      proxy.cut();
      const next = await world.open({ chroot, sessionTimeout: 2_000 });
      const heir = request("last");
      await until("the end of the session", async () => "granted" in (await next.attempt(heir, io)));
      await other.close();
      await world.stop();
      world = await ZooKeeperWorld.start({ dataFolder, port });
      await fencesOf(await world.open(), request("after the restart"));
    } finally {
      await world.stop();
      rmSync(dataFolder, { recursive: true, force: true });
    }
  });
});
