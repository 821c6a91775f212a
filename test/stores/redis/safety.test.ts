// A Redis that could drop locks is refused by name; what cannot be read is a finding (P19).

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createLocks } from "../../../src/index.ts";
import { answered, io, RedisWorld, request } from "./fixture.ts";

let world: RedisWorld;

beforeAll(async () => {
  world = await RedisWorld.start();
});

afterAll(() => world?.stop());

const ids = async (url: string): Promise<string[]> =>
  (await (await world.open({ url })).check(io)).map((finding) => finding.id);

describe("a Redis", () => {
  it("that evicts is refused with the setting and the fix, unless the caller allows it", async () => {
    await world.ask("CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru");
    const strict = createLocks(world.url);
    await expect(answered(() => strict.tryAcquire("k"))).rejects.toMatchObject({
      code: "ERR_STORE_UNSAFE",
      setting: "maxmemory-policy",
      fix: expect.stringContaining("noeviction") as string,
    });
    const lax = createLocks(world.url, { allow: ["eviction"] });
    await (await lax.acquire("k")).release();
    expect((await lax.check()).map(({ id, level }) => [id, level])).toContainEqual(["eviction", "danger"]);
    await strict.close();
    await lax.close();
    await world.ask("CONFIG", "SET", "maxmemory", "0");
    expect(await ids(world.url)).not.toContain("eviction");
    await world.ask("CONFIG", "SET", "maxmemory-policy", "noeviction");
  });

  it("that forgets on a restart is a warning", async () => {
    expect(await ids(world.url)).toContain("persistence");
    await world.ask("CONFIG", "SET", "appendonly", "yes", "appendfsync", "always");
    expect(await ids(world.url)).not.toContain("persistence");
    await world.ask("CONFIG", "SET", "appendfsync", "everysec");
    const found = await (await world.open({ url: world.url })).check(io);
    expect(found).toContainEqual(
      expect.objectContaining({ id: "persistence", level: "info", what: "appendfsync is everysec" }),
    );
    await world.ask("CONFIG", "SET", "appendonly", "no");
  });

  it("that is a replica is refused, and may be a primary later", async () => {
    await world.ask("REPLICAOF", "127.0.0.1", "1");
    const locks = createLocks(world.url);
    await expect(answered(() => locks.tryAcquire("k"))).rejects.toMatchObject({
      code: "ERR_STORE_UNAVAILABLE",
      retryable: true,
      message: expect.stringContaining("replica") as string,
    });
    await world.ask("REPLICAOF", "NO", "ONE");
    await (await locks.acquire("k")).release();
    await world.ask("REPLICAOF", "127.0.0.1", "1");
    await expect(answered(() => locks.tryAcquire("k"))).rejects.toMatchObject({
      message: expect.stringContaining("READONLY") as string,
      retryable: true,
    });
    await world.ask("REPLICAOF", "NO", "ONE");
    await locks.close();
  });

  it("whose settings may not be read is a finding; one that forbids listening still works, by heartbeat", async () => {
    const may = ["+evalsha", "+eval", "+time", "+publish", "+@read", "+@write"];
    await world.ask("ACL", "SETUSER", "poor", "on", ">p", "~t:*", "resetchannels", ...may);
    const url = world.url.replace("redis://", "redis://poor:p@");
    const found = await ids(url);
    expect(found).toContain("settings-unknown");
    expect(found).toContain("no-push");
    const [one, two] = [createLocks(url, { namespace: "t" }), createLocks(url, { namespace: "t" })];
    const lease = await one.acquire("k");
    const next = two.acquire("k");
    await lease.release();
    expect((await next).fence > lease.fence).toBe(true);
    await one.close();
    await two.close();
  });

  it("that has no room for a second connection is used without pushes", async () => {
    for (const driver of ["redis", "ioredis"] as const) {
      const clients = Number(/connected_clients:(\d+)/.exec(String(await world.ask("INFO", "clients")))?.[1]);
      await world.ask("CONFIG", "SET", "maxclients", String(clients + 1));
      try {
        const store = await world.open({ url: world.url, driver });
        expect((await store.check(io)).map((finding) => finding.id)).toContain("no-push");
        expect(await store.attempt(request("alone"), io)).toHaveProperty("granted");
        await store.revoke("alone", { reason: "done", force: true }, io);
        await store.close();
      } finally {
        await world.ask("CONFIG", "SET", "maxclients", "1000");
      }
    }
  });
});
