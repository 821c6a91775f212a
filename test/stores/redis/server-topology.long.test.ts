// Facts about Redis Cluster and Sentinel that the product leans on, asked of real servers.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type ClusterServers, startCluster } from "../../../scripts/servers/redis-cluster.ts";
import type { RedisNode } from "../../../scripts/servers/redis-node.ts";
import { MASTER_NAME, type SentinelServers, startSentinel } from "../../../scripts/servers/redis-sentinel.ts";
import { slotOf } from "../../../src/stores/redis/topology/slots.ts";
import { until } from "../../support/processes.ts";
import { Resp } from "./resp.ts";

let cluster: ClusterServers;
let sentinels: SentinelServers;
const asking = new Map<number, Resp>();

beforeAll(async () => {
  [cluster, sentinels] = await Promise.all([startCluster(), startSentinel()]);
  for (const { port } of [...cluster.nodes, ...sentinels.nodes, ...sentinels.sentinels])
    asking.set(port, await Resp.open(port));
});

afterAll(async () => {
  for (const one of asking.values()) one.close();
  await Promise.all([cluster?.stop(), sentinels?.stop()]);
});

const at = ({ port }: { readonly port: number }): Resp => asking.get(port) as Resp;

/** The node that serves a key, and two that do not. */
async function placesOf(key: string): Promise<[owner: RedisNode, ...others: RedisNode[]]> {
  const owner = (await cluster.masterOf(slotOf(key))) as RedisNode;
  return [owner, ...cluster.nodes.filter((node) => node !== owner)];
}

async function idOf(node: RedisNode): Promise<string> {
  return String(await at(node).ask("CLUSTER", "MYID"));
}

describe("Redis Cluster", () => {
  it("puts a key into the slot that we compute, whatever braces and letters it has", async () => {
    const [node] = cluster.nodes as [RedisNode];
    for (const name of [
      "",
      "a",
      "{a}b",
      "x{a}{b}",
      "x{}y",
      "{{a}}",
      "a}b{c",
      "ключ",
      "holdfast:{a%7Bb}",
      "}{a}",
    ])
      expect(await at(node).ask("CLUSTER", "KEYSLOT", name), name).toBe(slotOf(name));
  });

  it("answers MOVED for a key of another node, and runs nothing", async () => {
    const [owner, other] = await placesOf("moved");
    const script = "redis.call('SET', KEYS[1], '1') return 1";
    await expect(at(other as RedisNode).ask("EVAL", script, "1", "moved")).rejects.toThrow(
      `MOVED ${slotOf("moved")} ${owner.name}`,
    );
    expect(await at(owner).ask("EXISTS", "moved")).toBe(0);
  });

  it("refuses a script over two slots", async () => {
    const [owner] = await placesOf("a");
    await expect(at(owner).ask("EVAL", "return 1", "2", "a", "b")).rejects.toThrow(/^CROSSSLOT /);
  });

  it("carries what a script publishes to every node, and keeps a sharded channel to the node of its slot", async () => {
    const [owner, other] = await placesOf("k");
    const listening = await Resp.open((other as RedisNode).port);
    await listening.ask("SUBSCRIBE", "news");
    const heard = listening.next();
    await at(owner).ask("EVAL", "return redis.call('PUBLISH', 'news', 'x')", "1", "k");
    expect(await heard).toEqual(["message", "news", "x"]);
    listening.close();
    const foreign = [...Array(100).keys()].map((n) => `c${n}`);
    const channel = (
      await Promise.all(foreign.map(async (name) => ((await placesOf(name))[0] === other ? name : "")))
    ).find(Boolean);
    const sharded = `return redis.pcall('SPUBLISH', '${channel}', 'x')`;
    await expect(at(owner).ask("EVAL", sharded, "1", "k")).rejects.toThrow(/non local key|MOVED|slot/i);
  });

  it("while a slot moves: ASK for what is gone, TRYAGAIN where only some of it is, and ASKING lets one command in", async () => {
    const [from, to] = (await placesOf("{s}1")) as [RedisNode, RedisNode];
    const slot = String(slotOf("{s}1"));
    await at(from).ask("SET", "{s}1", "1", "PX", "60000");
    await at(from).ask("SET", "{s}2", "2", "PX", "60000");
    await at(to).ask("CLUSTER", "SETSLOT", slot, "IMPORTING", await idOf(from));
    await at(from).ask("CLUSTER", "SETSLOT", slot, "MIGRATING", await idOf(to));
    await at(from).ask("MIGRATE", "127.0.0.1", String(to.port), "{s}1", "0", "1000");
    const get = "return redis.call('GET', KEYS[1])";
    await expect(at(from).ask("EVAL", get, "1", "{s}1")).rejects.toThrow(`ASK ${slot} ${to.name}`);
    expect(await at(from).ask("EVAL", get, "1", "{s}2")).toBe("2");
    await expect(at(from).ask("EVAL", get, "2", "{s}1", "{s}2")).rejects.toThrow(/^TRYAGAIN /);
    await expect(at(to).ask("EVAL", get, "1", "{s}1")).rejects.toThrow(/^MOVED /);
    expect(await at(to).ask("ASKING")).toBe("OK");
    expect(await at(to).ask("EVAL", get, "1", "{s}1")).toBe("1");
    expect(
      Number(
        await at(to)
          .ask("ASKING")
          .then(() => at(to).ask("PTTL", "{s}1")),
      ),
    ).toBeGreaterThan(50_000);
    await expect(at(to).ask("EVAL", get, "1", "{s}1")).rejects.toThrow(/^MOVED /);
    for (const node of cluster.nodes) await at(node).ask("CLUSTER", "SETSLOT", slot, "STABLE");
  });

  it("names primaries, slots and addresses in CLUSTER SLOTS", async () => {
    const [node] = cluster.nodes as [RedisNode];
    const ranges = (await at(node).ask("CLUSTER", "SLOTS")) as [number, number, [string, number, string]][];
    expect(ranges.map(([first, last]) => last - first + 1).reduce((a, b) => a + b)).toBe(16_384);
    const ports = ranges.map(([, , [host, port]]) => `${host}:${port}`);
    expect(new Set(ports)).toEqual(new Set(cluster.nodes.map(({ name }) => name)));
  });
});

describe("Sentinel", () => {
  it("names the master's address, and nothing for a name that it does not know", async () => {
    const sentinel = sentinels.sentinels[0] as { readonly port: number };
    const ask = (name: string): Promise<unknown> =>
      at(sentinel).ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name);
    expect(await ask(MASTER_NAME)).toEqual(["127.0.0.1", String(sentinels.nodes[0]?.port)]);
    expect(await ask("nobody")).toBeNull();
  });

  it("announces the new master, and the old one becomes a replica that refuses scripts which write", async () => {
    const [old] = sentinels.nodes as [RedisNode];
    const sentinel = sentinels.sentinels[0] as { readonly port: number };
    const listening = await Resp.open(sentinel.port);
    await listening.ask("SUBSCRIBE", "+switch-master");
    const heard = listening.next();
    await sentinels.failover();
    const [, , text] = (await heard) as string[];
    expect(text).toMatch(new RegExp(`^${MASTER_NAME} 127.0.0.1 ${old.port} 127.0.0.1 \\d+$`));
    listening.close();
    // Its connections are ended with its role.
    const write = "return redis.call('SET', KEYS[1], '1')";
    const refused = (): Promise<string> => old.ask("EVAL", write, "1", "k").then(String, String);
    await until(async () => (await refused()).includes("READONLY"));
    expect(await old.ask("ROLE")).toContain("slave");
    await sentinels.settled();
  });

  it("has what a script publishes on the primary delivered by its replicas too", async () => {
    const primary = (await sentinels.master()) as RedisNode;
    const replica = sentinels.nodes.find((node) => node !== primary) as RedisNode;
    const listening = await Resp.open(replica.port);
    await listening.ask("SUBSCRIBE", "news");
    const heard = listening.next();
    await primary.ask("EVAL", "return redis.call('PUBLISH', 'news', 'x')", "0");
    expect(await heard).toEqual(["message", "news", "x"]);
    listening.close();
  });
});
