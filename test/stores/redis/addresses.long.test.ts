// The addresses under which the nodes of a Cluster are announced: host names, no host at all, IPv6 addresses,
// addresses that only a NAT map translates, and a configuration endpoint as the only name that a client has.
// One real Cluster, whose nodes are told at run time what to announce.

import { Cluster } from "ioredis";
import { createCluster } from "redis";
import { createCluster as createCluster6 } from "redis-6";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { Proxy } from "../../../faults/proxy.ts";
import { type ClusterServers, startCluster } from "../../../scripts/servers/redis-cluster.ts";
import { agreed, type RedisNode } from "../../../scripts/servers/redis-node.ts";
import { createLocks, type Locks } from "../../../src/index.ts";
import { redis, type RedisClient, type RedisOptions } from "../../../src/stores/redis/index.ts";
import { slotOf } from "../../../src/stores/redis/topology/slots.ts";
import { moveSlot } from "./outages.ts";

let cluster: ClusterServers;

beforeAll(async () => {
  cluster = await startCluster({ args: ["--bind", "127.0.0.1", "::1"] });
});

afterAll(() => cluster?.stop());

/** What the nodes announce: a setting of each node, by its position. */
interface Announced {
  readonly hostname?: (at: number) => string;
  readonly endpointType?: "ip" | "hostname" | "unknown-endpoint";
  readonly ip?: string;
}

async function announce({
  hostname = () => "",
  endpointType = "ip",
  ip = "127.0.0.1",
}: Announced): Promise<void> {
  for (const [at, node] of cluster.nodes.entries()) {
    await node.ask("CONFIG", "SET", "cluster-announce-hostname", hostname(at));
    await node.ask("CONFIG", "SET", "cluster-announce-ip", ip);
    await node.ask("CONFIG", "SET", "cluster-preferred-endpoint-type", endpointType);
  }
  // Each node has to hear from the others what they announce.
  const expected = cluster.nodes.map(({ port }, at) => {
    const host = endpointType === "ip" ? ip : endpointType === "hostname" ? hostname(at) || "?" : "";
    return `${host === "" ? "$-1" : `$${host.length}\r\n${host}`}\r\n:${port}\r\n`;
  });
  await agreed("the nodes announce it", async () => {
    const views = await Promise.all(cluster.nodes.map((node) => node.ask("CLUSTER", "SLOTS")));
    return views.every((view) => expected.every((address) => view.includes(address)));
  });
  await cluster.settled();
}

afterEach(() => announce({}));

/** One key per node, by the first owner of its slot. */
async function keysPerNode(prefix: string): Promise<{ readonly key: string; readonly owner: RedisNode }[]> {
  const found = new Map<RedisNode, string>();
  for (let n = 0; found.size < cluster.nodes.length; n += 1) {
    const owner = (await cluster.masterOf(slotOf(`${prefix} ${n}`))) as RedisNode;
    if (!found.has(owner)) found.set(owner, `${prefix} ${n}`);
  }
  return [...found].map(([owner, key]) => ({ key, owner }));
}

/** Locks on every node, a notification, a list and a health check. */
async function lockEverywhere(options: RedisOptions, prefix: string): Promise<void> {
  const [one, two] = [createLocks(redis(options)), createLocks(redis(options))];
  try {
    const keys = await keysPerNode(prefix);
    for (const { key, owner } of keys) {
      const lease = await one.acquire(key, { wait: "60s" });
      expect(await owner.ask("EXISTS", `holdfast:{${key}}`)).toContain(":1");
      expect(await two.tryAcquire(key)).toBeNull();
      await two.revoke(key, { reason: "by hand" });
      await expect.poll(() => lease.held, { timeout: 60_000 }).toBe(false);
      await lease.release();
    }
    const listed: string[] = [];
    const all = await Promise.all(keys.map(({ key }) => two.acquire(key, { wait: "60s" })));
    for await (const { key } of one.list({ prefix })) listed.push(key);
    expect(listed.sort()).toEqual(keys.map(({ key }) => key).sort());
    expect((await one.check()).filter(({ id }) => id === "unreachable")).toEqual([]);
    await Promise.all(all.map((lease) => lease.release()));
    await followMovedSlot(one, keys);
  } finally {
    await Promise.all([one.close(), two.close()]);
  }
}

/** A slot moves while the store is open: the old node answers MOVED. */
async function followMovedSlot(
  locks: Locks,
  keys: readonly { readonly key: string; readonly owner: RedisNode }[],
): Promise<void> {
  const [{ key, owner: from }, { owner: to }] = keys as [(typeof keys)[0], (typeof keys)[0]];
  await moveSlot(cluster, slotOf(key), from, to, 0);
  const lease = await locks.acquire(key, { wait: "60s" });
  expect(await to.ask("EXISTS", `holdfast:{${key}}`)).toContain(":1");
  await lease.release();
  await moveSlot(cluster, slotOf(key), to, from, 0);
}

describe.each([undefined, "redis", "ioredis"] as const)("by URL, driver %s", (driver) => {
  it("host names are connected to", async () => {
    await announce({ hostname: () => "localhost", endpointType: "hostname" });
    await lockEverywhere({ url: cluster.url, driver }, `host name ${driver}`);
  });

  it("a node that announces no host is at the host that was asked, also in MOVED", async () => {
    await announce({ endpointType: "unknown-endpoint" });
    await lockEverywhere({ url: cluster.url, driver }, `no host ${driver}`);
  });

  it("a node that should announce a host name and has none is at the host that was asked", async () => {
    await announce({ endpointType: "hostname" });
    await lockEverywhere({ url: cluster.url, driver }, `no name ${driver}`);
  });

  it("IPv6 addresses are connected to, also in MOVED", async () => {
    await announce({ ip: "::1" });
    const url = `redis+cluster://${cluster.nodes.map(({ port }) => `[::1]:${port}`).join(",")}`;
    await lockEverywhere({ url, driver }, `IPv6 ${driver}`);
  });

  it("a configuration endpoint is enough, and is asked again when every known node is gone", async () => {
    const [node] = cluster.nodes as [RedisNode];
    const endpoint = await Proxy.listen({ host: "127.0.0.1", port: node.port });
    const options = { url: `redis+cluster://127.0.0.1:${endpoint.port}`, driver };
    await lockEverywhere(options, `endpoint ${driver}`);
    const locks = createLocks(redis(options), { ttl: "3s" });
    const key = `again ${driver}`;
    await (await locks.acquire(key, { wait: "60s" })).release();
    await expect.poll(() => endpoint.connections, { timeout: 60_000 }).toBe(0);
    const before = endpoint.accepted;
    await Promise.all(cluster.nodes.map((one) => one.kill()));
    await expect(locks.tryAcquire(key)).rejects.toMatchObject({ code: "ERR_STORE_UNAVAILABLE" });
    expect(endpoint.accepted).toBeGreaterThan(before);
    await Promise.all(cluster.nodes.map((one) => one.start()));
    await cluster.settled();
    await (await locks.acquire(key, { wait: "60s" })).release();
    await locks.close();
    await endpoint.close();
  });
});

describe("a NAT map", () => {
  const inside = (at: number): string => `node-${at}.invalid`;
  const translate = (name: string): { host: string; port: number } | undefined => {
    const [, port] = /^node-\d\.invalid:(\d+)$/.exec(name) ?? [];
    return port === undefined ? undefined : { host: "127.0.0.1", port: Number(port) };
  };
  const table = (): Record<string, { host: string; port: number }> =>
    Object.fromEntries(
      cluster.nodes.map(({ port }, at) => [`${inside(at)}:${port}`, { host: "127.0.0.1", port }]),
    );
  const rootNodes = (): { url: string }[] => cluster.nodes.map(({ name }) => ({ url: `redis://${name}` }));
  const startupNodes = (): { host: string; port: number }[] =>
    cluster.nodes.map(({ port }) => ({ host: "127.0.0.1", port }));

  const brings: Readonly<Record<string, () => Promise<{ client: RedisClient; end(): unknown }>>> = {
    "natMap of ioredis": () => {
      const client = new Cluster(startupNodes(), { natMap: table() });
      return Promise.resolve({ client, end: () => client.disconnect() });
    },
    "natMap of ioredis as a function": () => {
      const client = new Cluster(startupNodes(), { natMap: (name) => translate(name) ?? null });
      return Promise.resolve({ client, end: () => client.disconnect() });
    },
    "nodeAddressMap of node-redis 5": async () => {
      const client = await createCluster({ rootNodes: rootNodes(), nodeAddressMap: table() }).connect();
      return { client, end: () => client.destroy() };
    },
    "nodeAddressMap of node-redis 6 as a function": async () => {
      const client = await createCluster6({ rootNodes: rootNodes(), nodeAddressMap: translate }).connect();
      return { client, end: () => client.destroy() };
    },
  };

  it.each(Object.keys(brings))("%s is honoured, also for MOVED", async (name) => {
    await announce({ hostname: inside, endpointType: "hostname" });
    const { client, end } = await (brings[name] as (typeof brings)[string])();
    try {
      await lockEverywhere({ client }, name);
    } finally {
      await end();
    }
  });
});
