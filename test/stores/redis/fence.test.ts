// guardKey on a real Redis, with every client that it takes.

import { Redis as Ioredis5 } from "ioredis";
import { Redis as Ioredis6 } from "ioredis-6";
import { createClient as createClient5 } from "redis";
import { createClient as createClient4 } from "redis-4";
import { createClient as createClient6 } from "redis-6";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import { startRedis } from "../../../scripts/servers/redis.ts";
import { guardKey } from "../../../src/fence/index.ts";
import {
  createLocks,
  InvalidArgumentError,
  StaleFenceError,
  UnsafeStoreError,
  UnsupportedError,
} from "../../../src/index.ts";

interface Client {
  readonly client: object;
  get(key: string): Promise<string | null>;
  close(): void;
}

type NodeRedis = { connect(): Promise<unknown>; get(key: string): Promise<unknown>; disconnect?(): unknown };

const families: Record<string, (url: string) => Promise<Client>> = {
  "node-redis 4": (url) => nodeRedis(createClient4({ url }) as unknown as NodeRedis),
  "node-redis 5": (url) => nodeRedis(createClient5({ url }) as unknown as NodeRedis),
  "node-redis 6": (url) => nodeRedis(createClient6({ url }) as unknown as NodeRedis),
  "ioredis 5": (url) => Promise.resolve(ioredis(new Ioredis5(url))),
  "ioredis 6": (url) => Promise.resolve(ioredis(new Ioredis6(url))),
};

async function nodeRedis(client: NodeRedis): Promise<Client> {
  await client.connect();
  return {
    client,
    get: async (key) => (await client.get(key)) as string | null,
    close: () => void client.disconnect?.(),
  };
}

function ioredis(client: { get(key: string): Promise<string | null>; disconnect(): void }): Client {
  return { client, get: (key) => client.get(key), close: () => client.disconnect() };
}

let server: RunningServer;
const open: Client[] = [];
async function connect(family: string): Promise<Client> {
  const client = await (families[family] as (url: string) => Promise<Client>)(server.url);
  open.push(client);
  return client;
}

beforeAll(async () => {
  server = await startRedis();
});
afterAll(async () => {
  for (const client of open) client.close();
  await server.stop();
});

describe.each(Object.keys(families))("%s", (family) => {
  test("claims on first touch, writes under the claim, and refuses an older fence (P4)", async () => {
    const { client, get } = await connect(family);
    const key = `phone:${family}`;
    await guardKey(client, key, 5n);
    await guardKey.set(client, key, "by five", 5n);
    await guardKey(client, key, 7n);
    const error = await guardKey.set(client, key, "late", 5n).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(StaleFenceError);
    expect(error).toMatchObject({ fence: 5n, seen: 7n, key });
    expect(await get(key)).toBe("by five");
    await guardKey.set(client, key, new TextEncoder().encode("by seven"), 7n);
    expect(await get(key)).toBe("by seven");
    expect(await get(guardKey.fenceName(key))).toBe("7");
  });

  test("tells fences apart that a double cannot (P4)", async () => {
    const { client } = await connect(family);
    const key = `large:${family}`;
    const large = 2n ** 62n;
    await guardKey(client, key, 9n);
    await guardKey(client, key, large + 1n);
    await expect(guardKey(client, key, large)).rejects.toMatchObject({ seen: large + 1n });
    await guardKey(client, key, large + 2n);
  });
});

test("of many at once none goes back: the value only moves to larger fences (P4)", async () => {
  const clients = await Promise.all(["node-redis 5", "ioredis 5", "node-redis 6", "ioredis 6"].map(connect));
  const reader = await connect("ioredis 5");
  const seen: bigint[] = [];
  let over = false;
  const watching = (async () => {
    while (!over) seen.push(BigInt((await reader.get("crowd")) ?? 0));
  })();
  let stale = 0;
  const writer = async (at: number): Promise<void> => {
    const { client } = clients[at % clients.length] as Client;
    for (let turn = 0; turn < 100; turn += 1) {
      // Roughly upwards, each now and then far behind the others.
      const fence = BigInt(1 + turn * 8 + ((at * 5 + turn * 3) % 8) * (turn % 4 === 0 ? 1 : 20));
      await guardKey.set(client, "crowd", String(fence), fence).catch((error: unknown) => {
        expect(error).toBeInstanceOf(StaleFenceError);
        stale += 1;
      });
    }
  };
  await Promise.all(Array.from({ length: 8 }, (_none, at) => writer(at)));
  over = true;
  await watching;
  for (let i = 1; i < seen.length; i += 1)
    expect(seen[i] as bigint).toBeGreaterThanOrEqual(seen[i - 1] as bigint);
  expect(new Set(seen).size).toBeGreaterThan(10);
  expect(await reader.get("crowd")).toBe(await reader.get(guardKey.fenceName("crowd")));
  expect(stale).toBeGreaterThan(50);
});

test("leases are taken as they are; shared ones and strange clients are refused", async () => {
  const { client } = await connect("ioredis 5");
  const locks = createLocks(server.url);
  await locks.using("phone:1", (lease) => guardKey(client, "phone:1:state", lease));
  await locks.using("phone:2", { mode: "shared" }, async (lease) => {
    await expect(guardKey(client, "phone:2:state", lease)).rejects.toThrow(UnsupportedError);
  });
  await locks.using(["a", "b"], async (lease) => {
    await guardKey(client, "state of b", lease, { lock: "b" });
    expect(await open.at(-1)?.get(guardKey.fenceName("state of b"))).toBe(String(lease.fenceOf("b")));
  });
  await locks.close();
  for (const strange of [{}, null, { eval: () => Promise.resolve("") }])
    await expect(guardKey(strange as object, "k", 1n)).rejects.toThrow(InvalidArgumentError);
  await expect(guardKey.set(client, "k", 5 as unknown as string, 1n)).rejects.toThrow(InvalidArgumentError);
});

test("the fence stands in the slot of its key", () => {
  expect(guardKey.fenceName("phone:1")).toBe("{phone:1}:fence");
  expect(guardKey.fenceName("{phone:1}:state")).toBe("{phone:1}:state:fence");
  expect(guardKey.fenceName("a{}b")).toBe("{a{}b}:fence");
  expect(guardKey.fenceName("{a}")).toBe("{a}:own-fence");
});

test("keys that differ only by braces have fences of their own (P4, P18)", async () => {
  const keys = ["a", "{a}", "{a}:", "{{a}}", "x{a}", "{x{a}}", "{a}:own-fence", "{a}:fence", "{{a}:fence}"];
  expect(new Set(keys.map((key) => guardKey.fenceName(key))).size).toBe(keys.length);
  const { client } = await connect("ioredis 5");
  await guardKey(client, "a", 9n);
  await guardKey(client, "{a}", 5n);
  await expect(guardKey(client, "a", 8n)).rejects.toThrow(StaleFenceError);
});

test("a damaged fence is an UnsafeStoreError, and nothing is written (P19)", async () => {
  const { client, get } = await connect("ioredis 5");
  const raw = client as Ioredis5;
  for (const damage of ["", "x", "-5", "12.5", "9".repeat(20)]) {
    await raw.set(guardKey.fenceName("hurt"), damage);
    const error = await guardKey.set(client, "hurt", "late", 7n).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(UnsafeStoreError);
    expect(error).toMatchObject({ setting: "fence", key: "hurt" });
    expect(await get(guardKey.fenceName("hurt"))).toBe(damage);
  }
  await raw.del(guardKey.fenceName("hurt"));
  await raw.lpush(guardKey.fenceName("hurt"), "1");
  await expect(guardKey.set(client, "hurt", "late", 7n)).rejects.toThrow(UnsafeStoreError);
  expect(await get("hurt")).toBeNull();
});
