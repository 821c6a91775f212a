// Clients that people bring along: every supported major is known by its shape, used and left as it was.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Redis } from "ioredis";
import { Redis as Redis6 } from "ioredis-6";
import { Redis as Valkey } from "iovalkey";
import { createClient } from "redis";
import { createClient as createClient4 } from "redis-4";
import { createClient as createClient6 } from "redis-6";
import { createLocks } from "../../../src/index.ts";
import { redis, type RedisClient } from "../../../src/stores/redis/index.ts";
import { nodeSystem } from "../../../src/system/node.ts";
import { answered, io, RedisWorld, until } from "./fixture.ts";

let world: RedisWorld;

beforeAll(async () => {
  world = await RedisWorld.start();
});

afterAll(() => world?.stop());

interface Brought {
  readonly client: RedisClient;
  /** A command of the client's own. */
  ping(): Promise<unknown>;
  end(): unknown;
}

const brings: Readonly<Record<string, () => Promise<Brought>>> = {
  "node-redis 4": async () => {
    const client = createClient4({ url: world.url });
    await client.connect();
    return { client, ping: () => client.ping(), end: () => client.disconnect() };
  },
  "node-redis 5": async () => {
    const client = await createClient({ url: world.url }).connect();
    return { client, ping: () => client.ping(), end: () => client.destroy() };
  },
  "node-redis 5 with RESP 3": async () => {
    const client = await createClient({ url: world.url, RESP: 3 }).connect();
    return { client, ping: () => client.ping(), end: () => client.destroy() };
  },
  "node-redis 6": async () => {
    const client = await createClient6({ url: world.url }).connect();
    return { client, ping: () => client.ping(), end: () => client.destroy() };
  },
  "ioredis 5": () => {
    const client = new Redis(world.url);
    return Promise.resolve({ client, ping: () => client.ping(), end: () => client.disconnect() });
  },
  "ioredis 5 that is lazy and numbers in text": () => {
    const client = new Redis(world.url, {
      lazyConnect: true,
      stringNumbers: true,
      enableAutoPipelining: true,
    });
    return Promise.resolve({ client, ping: () => client.ping(), end: () => client.disconnect() });
  },
  "ioredis 6": () => {
    const client = new Redis6(world.url);
    return Promise.resolve({ client, ping: () => client.ping(), end: () => client.disconnect() });
  },
  "iovalkey 0.4": () => {
    const client = new Valkey(world.url);
    return Promise.resolve({ client, ping: () => client.ping(), end: () => client.disconnect() });
  },
};

/** Everything about a client that others could notice. */
function seen(client: object): unknown {
  const emitter = client as {
    eventNames(): (string | symbol)[];
    listenerCount(name: string | symbol): number;
  };
  return {
    own: Reflect.ownKeys(client),
    listeners: emitter.eventNames().map((name) => [name, emitter.listenerCount(name)]),
  };
}

async function connections(): Promise<number> {
  return String(await world.ask("CLIENT", "LIST"))
    .trim()
    .split("\n").length;
}

describe.each(Object.keys(brings))("%s", (name) => {
  it("locks, hands over by push, lists, and is left open and unchanged (P16)", async () => {
    const { client, ping, end } = await (brings[name] as () => Promise<Brought>)();
    await ping();
    const [before, connected] = [seen(client), await connections()];
    const [one, two] = [createLocks(redis({ client })), createLocks(redis({ client }))];
    const key = `${name} {ключ}`;
    const lease = await one.acquire(key, { label: "first" });
    const next = two.acquire(key, { label: "second" });
    await until("a waiter", async () => ((await one.inspect(key))?.waiters ?? []).length === 1);
    await lease.release();
    const second = await next;
    expect(second.fence).toBeGreaterThan(lease.fence);
    expect(second.held).toBe(true);
    const listed: string[] = [];
    for await (const info of one.list({ prefix: name })) listed.push(info.key);
    expect(listed).toEqual([key]);
    await one.revoke(key, { reason: "test" });
    await until("the news of the revocation", () => !second.held);
    await one.close();
    await two.close();
    expect(seen(client)).toEqual(before);
    expect(String(await ping())).toBe("PONG");
    await until("the end of our own connections", async () => (await connections()) === connected);
    await end();
  });
});

describe("a client", () => {
  it("with a prefix of its own for keys has its locks under it", async () => {
    const client = new Redis(world.url, { keyPrefix: "app[1]:" });
    const locks = createLocks(redis({ client }));
    const lease = await locks.acquire(["a", "b"]);
    expect(((await world.ask("KEYS", "app*")) as string[]).sort()).toEqual([
      "app[1]:holdfast:clock",
      "app[1]:holdfast:{a}",
      "app[1]:holdfast:{b}",
    ]);
    const listed: string[] = [];
    for await (const info of locks.list()) listed.push(info.key);
    expect(listed.sort()).toEqual(["a", "b"]);
    await lease.release();
    await locks.close();
    client.disconnect();
  });

  it("that was never connected is named as the reason (P17)", async () => {
    const locks = createLocks(redis({ client: createClient({ url: world.url }) }));
    await expect(answered(() => locks.tryAcquire("k"))).rejects.toMatchObject({
      code: "ERR_STORE_UNAVAILABLE",
      message: expect.stringContaining("connect()") as string,
    });
    await locks.close();
  });

  it("that was told SELECT gets no dedicated connection to another database (P1)", async () => {
    const client = await createClient({ url: world.url }).connect();
    await client.select(5);
    const locks = createLocks(redis({ client, scripts: false }));
    await expect(answered(() => locks.acquire("selected", { wait: 500 }))).rejects.toThrow(
      /database 0 instead of 5/,
    );
    expect(await world.ask("KEYS", "*selected*")).toEqual([]);
    await locks.close();
    client.destroy();
  });

  it("of ioredis that has no connection does not send what its caller has given up", async () => {
    const client = new Redis({ port: 1, host: "127.0.0.1", retryStrategy: () => 60_000 });
    client.on("error", () => {});
    const { portOf } = await import("../../../src/stores/redis/client/connect.ts");
    const giveUp = new AbortController();
    const call = { timeoutMs: 60_000, signal: giveUp.signal, sleep: io.sleep };
    const sent = portOf(client, nodeSystem).send(["SET", "late", "1"], call);
    giveUp.abort();
    await expect(sent).rejects.toThrow("no connection to Redis");
    client.disconnect();
  });
});

describe("a URL", () => {
  it("to nobody is refused at once, by name, with and without a package (P13, P17)", async () => {
    for (const driver of [undefined, "redis", "ioredis"] as const) {
      const locks = createLocks(redis({ url: "redis://127.0.0.1:1", driver }));
      await expect(answered(() => locks.tryAcquire("k"))).rejects.toMatchObject({
        code: "ERR_STORE_UNAVAILABLE",
        message: expect.stringContaining("ECONNREFUSED") as string,
      });
      await locks.close();
    }
  });

  it("with user, password and database is honoured, and a wrong password is not tried again", async () => {
    await world.ask(
      "ACL",
      "SETUSER",
      "lock",
      "on",
      ">pa%20ss",
      "~t:*",
      "&t:*",
      "+@all",
      "-@dangerous",
      "+info",
    );
    const address = world.url.slice("redis://".length);
    for (const driver of [undefined, "redis", "ioredis"] as const) {
      const store = await world.open({ url: `redis://lock:pa%2520ss@${address}/3`, driver });
      expect(await store.check(io)).toBeDefined();
      await expect(world.open({ url: `redis://lock:wrong@${address}`, driver })).rejects.toMatchObject({
        code: "ERR_STORE_UNAVAILABLE",
        retryable: false,
      });
    }
  });
});
