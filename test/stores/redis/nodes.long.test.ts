// Clients of sentinels and of a Cluster that people bring along: every supported major is known by its
// shape, used and left as it was.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Cluster, Redis } from "ioredis";
import { Cluster as Cluster6, Redis as Redis6 } from "ioredis-6";
import { createCluster, createSentinel } from "redis";
import { createCluster as createCluster4 } from "redis-4";
import { createCluster as createCluster6, createSentinel as createSentinel6 } from "redis-6";
import { type ClusterServers, startCluster } from "../../../scripts/servers/redis-cluster.ts";
import { MASTER_NAME, type SentinelServers, startSentinel } from "../../../scripts/servers/redis-sentinel.ts";
import type { RedisNode } from "../../../scripts/servers/redis-node.ts";
import { createLocks } from "../../../src/index.ts";
import { redis, type RedisClient } from "../../../src/stores/redis/index.ts";
import { until } from "./fixture.ts";

let sentinels: SentinelServers;
let cluster: ClusterServers;

beforeAll(async () => {
  [sentinels, cluster] = await Promise.all([startSentinel(), startCluster()]);
});

afterAll(async () => {
  await Promise.all([sentinels?.stop(), cluster?.stop()]);
});

interface Brought {
  readonly client: RedisClient;
  readonly nodes: readonly RedisNode[];
  /** A command of the client's own. */
  ping(): Promise<unknown>;
  end(): unknown;
}

const addresses = (): { host: string; port: number }[] =>
  sentinels.sentinels.map(({ port }) => ({ host: "127.0.0.1", port }));
const rootNodes = (): { url: string }[] =>
  cluster.nodes.map(({ port }) => ({ url: `redis://127.0.0.1:${port}` }));
const startupNodes = (): { host: string; port: number }[] =>
  cluster.nodes.map(({ port }) => ({ host: "127.0.0.1", port }));

const brings: Readonly<Record<string, () => Promise<Brought>>> = {
  "node-redis 5 with sentinels": async () => {
    const client = await createSentinel({ name: MASTER_NAME, sentinelRootNodes: addresses() }).connect();
    return { client, nodes: sentinels.nodes, ping: () => client.ping(), end: () => client.destroy() };
  },
  "node-redis 6 with sentinels": async () => {
    const client = await createSentinel6({ name: MASTER_NAME, sentinelRootNodes: addresses() }).connect();
    return { client, nodes: sentinels.nodes, ping: () => client.ping(), end: () => client.destroy() };
  },
  "ioredis 5 with sentinels": () => {
    const client = new Redis({ sentinels: addresses(), name: MASTER_NAME });
    return Promise.resolve({
      client,
      nodes: sentinels.nodes,
      ping: () => client.ping(),
      end: () => client.disconnect(),
    });
  },
  "ioredis 6 with sentinels": () => {
    const client = new Redis6({ sentinels: addresses(), name: MASTER_NAME });
    return Promise.resolve({
      client,
      nodes: sentinels.nodes,
      ping: () => client.ping(),
      end: () => client.disconnect(),
    });
  },
  "node-redis 4 of a Cluster": async () => {
    const client = createCluster4({ rootNodes: rootNodes() });
    await client.connect();
    return {
      client,
      nodes: cluster.nodes,
      ping: () => client.get("x").then(() => "PONG"),
      end: () => client.disconnect(),
    };
  },
  "node-redis 5 of a Cluster": async () => {
    const client = await createCluster({ rootNodes: rootNodes() }).connect();
    return {
      client,
      nodes: cluster.nodes,
      ping: () => client.get("x").then(() => "PONG"),
      end: () => client.destroy(),
    };
  },
  "node-redis 6 of a Cluster": async () => {
    const client = await createCluster6({ rootNodes: rootNodes() }).connect();
    return {
      client,
      nodes: cluster.nodes,
      ping: () => client.get("x").then(() => "PONG"),
      end: () => client.destroy(),
    };
  },
  "ioredis 5 of a Cluster": () => {
    const client = new Cluster(startupNodes());
    return Promise.resolve({
      client,
      nodes: cluster.nodes,
      ping: () => everywhere(client),
      end: () => client.disconnect(),
    });
  },
  "ioredis 5 of a Cluster that is lazy and has a prefix": () => {
    const client = new Cluster(startupNodes(), { lazyConnect: true, keyPrefix: "app{x}:" });
    return Promise.resolve({
      client,
      nodes: cluster.nodes,
      ping: () => everywhere(client),
      end: () => client.disconnect(),
    });
  },
  "ioredis 6 of a Cluster": () => {
    const client = new Cluster6(startupNodes());
    return Promise.resolve({
      client,
      nodes: cluster.nodes,
      ping: () => everywhere(client),
      end: () => client.disconnect(),
    });
  },
};

/** A Cluster client connects to a node when it first has a command for it. */
async function everywhere(client: Cluster | Cluster6): Promise<unknown> {
  await client.ping();
  const [reply] = await Promise.all(client.nodes("master").map((node) => node.ping()));
  return reply;
}

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

/** Connections that look like ours or the client's, not those of replicas and sentinels. */
async function connections(nodes: readonly RedisNode[]): Promise<number> {
  const lists = await Promise.all(nodes.map((node) => node.ask("CLIENT", "LIST", "TYPE", "NORMAL")));
  const listening = await Promise.all(nodes.map((node) => node.ask("CLIENT", "LIST", "TYPE", "PUBSUB")));
  const lines = [...lists, ...listening].flatMap((text) => text.split("\n"));
  return lines.filter((line) => line.includes("addr=") && !/name=sentinel|cmd=client/.test(line)).length;
}

describe.each(Object.keys(brings))("%s", (name) => {
  it("locks, hands over by push, lists, and is left open and unchanged (P16)", async () => {
    const { client, nodes, ping, end } = await (brings[name] as () => Promise<Brought>)();
    await ping();
    const [before, connected] = [seen(client), await connections(nodes)];
    const [one, two] = [createLocks(redis({ client })), createLocks(redis({ client }))];
    const key = `${name} {ключ}`;
    const lease = await one.acquire(key, { label: "first" });
    const next = two.acquire(key, { label: "second" });
    await until("a waiter", async () => ((await one.inspect(key))?.waiters ?? []).length === 1);
    await lease.release();
    const second = await next;
    expect(second.fence).toBeGreaterThan(lease.fence);
    expect(second.held).toBe(true);
    const both = await one.acquire([`${name} a`, `${name} b`, `${name} c`]);
    const listed: string[] = [];
    for await (const info of one.list({ prefix: name })) listed.push(info.key);
    expect(listed.sort()).toEqual([`${name} a`, `${name} b`, `${name} c`, key].sort());
    await both.release();
    expect((await one.check()).filter(({ level }) => level === "danger")).toEqual([]);
    await one.revoke(key, { reason: "test" });
    await until("the news of the revocation", () => !second.held, 500);
    await one.close();
    await two.close();
    expect(seen(client)).toEqual(before);
    expect(String(await ping())).toBe("PONG");
    await until("the end of our own connections", async () => (await connections(nodes)) <= connected);
    await end();
  });
});

describe.each(["redis", "ioredis"] as const)("connections of their own, with %s", (driver) => {
  it.each([
    ["sentinels, replicas that acknowledge", () => sentinels.url, { replicas: 2 }],
    ["sentinels, no scripts", () => sentinels.url, { scripts: false }],
    ["a Cluster, no scripts", () => cluster.url, { scripts: false }],
  ] as const)("reach the node of each key: %s (P1, P3)", async (name, url, options) => {
    const make = () => createLocks(redis({ url: url(), driver, ...options }));
    const [one, two] = [make(), make()];
    for (let n = 0; n < 5; n += 1) {
      const key = `${name} ${n}`;
      const lease = await one.acquire(key);
      expect(await two.tryAcquire(key)).toBeNull();
      const next = two.acquire(key);
      // Without scripts a waiter has no place in the queue.
      if (!("scripts" in options))
        await until("a waiter", async () => ((await one.inspect(key))?.waiters ?? []).length === 1);
      await lease.release();
      expect((await next).fence > lease.fence).toBe(true);
      await (await next).release();
    }
    await one.close();
    await two.close();
  });

  it("more replicas than there are refuse with the counts (P17)", async () => {
    const locks = createLocks(redis({ url: cluster.url, driver, replicas: 1 }));
    await expect(locks.acquire("alone", { wait: 300 })).rejects.toThrow("0 of the 1 replicas");
    await locks.close();
  });
});
