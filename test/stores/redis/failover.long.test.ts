// Primaries that are killed, frozen and demoted under load, and slots that move: waiters and holders go on,
// fences grow, and who has lost is told.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type ClusterServers, startCluster } from "../../../scripts/servers/redis-cluster.ts";
import type { RedisNode } from "../../../scripts/servers/redis-node.ts";
import { type SentinelServers, startSentinel } from "../../../scripts/servers/redis-sentinel.ts";
import { createLocks, type Locks } from "../../../src/index.ts";
import { redis } from "../../../src/stores/redis/index.ts";
import { slotOf } from "../../../src/stores/redis/topology/slots.ts";
import { Holders, Load, pause } from "./load.ts";
import { killPrimary, moveSlot } from "./outages.ts";
import { until } from "./fixture.ts";
import { StallMeter } from "../../../src/testing/stall-meter.ts";

/** The aim is one second after the new primary takes writes. */
const NEXT_GRANT_MS = 10_000;

const opened: Locks[] = [];

function open(url: string, count = 1): Locks[] {
  const drivers = [undefined, "redis", "ioredis"] as const;
  const locks = drivers.flatMap((driver) =>
    Array.from({ length: count }, () => createLocks(redis({ url, driver }), { handoff: 0 })),
  );
  opened.push(...locks);
  return locks;
}

afterAll(() => Promise.all(opened.map((locks) => locks.close({ drain: 0 }))));

describe("with sentinels", () => {
  let servers: SentinelServers;

  beforeAll(async () => {
    servers = await startSentinel();
  });

  afterAll(() => servers?.stop());

  async function master(): Promise<RedisNode> {
    const node = await servers.master();
    if (node === null) throw new Error("the sentinels do not agree");
    return node;
  }

  it("a killed primary costs waiters and holders the failover and no more (P3, P7, P11)", async () => {
    const locks = open(servers.url);
    const holders = await Holders.take(locks, 5, "held");
    const load = new Load(locks, "hot", 3);
    await load.next(0);
    await pause(300);
    const before = load.sections.length;
    const old = await master();
    const { writableMs } = await killPrimary(
      old,
      servers.nodes.filter((node) => node !== old),
      "probe",
    );
    const meter = new StallMeter();
    const next = await load.next(writableMs);
    expect(next.atMs - writableMs - meter.stalledMs()).toBeLessThan(NEXT_GRANT_MS);
    await pause(500);
    await load.stop();
    expect(load.sections.length).toBeGreaterThan(before);
    expect(load.fencesGrow).toBe(true);
    expect(load.errors.filter((error) => !/lost/i.test(String(error)))).toEqual([]);
    expect((await holders.verdict()).wrong).toBe(0);
    await old.start();
    await servers.settled();
  });

  it("a frozen primary is left when the sentinels have chosen another one (P2, P7)", async () => {
    const [locks] = open(servers.url) as [Locks];
    const lease = await locks.acquire("frozen", { ttl: "1s" });
    const old = await master();
    old.signal("SIGSTOP");
    try {
      const next = await locks.acquire("frozen", { wait: "150s" });
      expect(next.held).toBe(true);
      expect(lease.held).toBe(false);
      expect(next.fence > lease.fence).toBe(true);
    } finally {
      old.signal("SIGCONT");
    }
    await servers.settled();
  });

  it("a failover that an operator asks for is followed, and holders keep what was replicated (P5)", async () => {
    const locks = open(servers.url);
    const holders = await Holders.take(locks, 5, "planned");
    const old = await master();
    await until("the replicas have it", async () => /lag=[01]\b/.test(await old.ask("INFO", "replication")));
    await pause(300);
    await servers.failover();
    await until("an answer", async () => (await holders.verdict().catch(() => ({ wrong: 1 }))).wrong === 0);
    const { held, lost } = await holders.verdict();
    expect(held + lost).toBe(10);
    expect(held).toBeGreaterThan(0);
    await servers.settled();
  });

  it("a name that no sentinel knows is said at once (P17)", async () => {
    const locks = createLocks(servers.url.replace(/\/\w+$/, "/nobody"));
    await expect(locks.acquire("k", { wait: "150s" })).rejects.toMatchObject({
      code: "ERR_STORE_UNAVAILABLE",
      retryable: false,
      message: expect.stringContaining('"nobody"') as string,
    });
    await locks.close({ drain: 0 });
  });
});

describe("in a Cluster", () => {
  let servers: ClusterServers;

  beforeAll(async () => {
    servers = await startCluster({ replicas: true });
  });

  afterAll(() => servers?.stop());

  async function primaryOf(key: string): Promise<RedisNode> {
    const node = await servers.masterOf(slotOf(key));
    if (node === null) throw new Error(`nobody serves ${key}`);
    return node;
  }

  async function keyElsewhere(node: RedisNode): Promise<string> {
    for (let n = 0; ; n += 1) if ((await primaryOf(`cold ${n}`)) !== node) return `cold ${n}`;
  }

  it("a killed primary costs the waiters and holders of its slots the failover and no more (P3, P7, P11)", async () => {
    const locks = open(servers.url);
    const holders = await Holders.take(locks, 5, "held");
    const old = await primaryOf("hot");
    const cold = await keyElsewhere(old);
    const [load, elsewhere] = [new Load(locks, "hot", 3), new Load(locks, cold, 1)];
    await Promise.all([load.next(0), elsewhere.next(0)]);
    await pause(300);
    const { writableMs } = await killPrimary(
      old,
      servers.nodes.filter((node) => node !== old),
      "{hot}probe",
    );
    const meter = new StallMeter();
    const next = await load.next(writableMs);
    expect(next.atMs - writableMs - meter.stalledMs()).toBeLessThan(NEXT_GRANT_MS);
    await pause(500);
    await Promise.all([load.stop(), elsewhere.stop()]);
    for (const one of [load, elsewhere]) {
      expect(one.fencesGrow).toBe(true);
      expect(one.errors.filter((error) => !/lost/i.test(String(error)))).toEqual([]);
    }
    expect((await holders.verdict()).wrong).toBe(0);
    await old.start();
    await servers.settled();
  });

  /** Another primary than this one. */
  async function otherPrimary(node: RedisNode): Promise<RedisNode> {
    for (const one of servers.nodes) {
      if (one !== node && /role:master/.test(await one.ask("INFO", "replication"))) return one;
    }
    throw new Error("there is no other primary");
  }

  it("a slot that moves under load is followed: nothing overlaps, nothing is lost (P1, P3, P11)", async () => {
    const locks = open(servers.url);
    const load = new Load(locks, "moving", 3);
    await load.next(0);
    await pause(200);
    for (let turn = 0; turn < 3; turn += 1) {
      const from = await primaryOf("moving");
      await moveSlot(servers, slotOf("moving"), from, await otherPrimary(from), 100);
      await load.next(load.sections.at(-1)?.atMs ?? 0);
    }
    // Half-way the key is at the new node and the slot not yet: who does not follow ASK stands still for so
    // long.
    const halfWayMs = 2_500;
    const meter = new StallMeter();
    const since = load.sections.length;
    const from = await primaryOf("moving");
    await moveSlot(servers, slotOf("moving"), from, await otherPrimary(from), halfWayMs);
    const times = load.sections.slice(since).map(({ atMs }) => atMs);
    const longestMs = Math.max(...times.slice(1).map((ms, at) => ms - (times[at] as number)));
    expect(longestMs - meter.stalledMs()).toBeLessThan(halfWayMs - 500);
    await load.stop();
    expect(load.sections.length).toBeGreaterThan(20);
    expect({ overlaps: load.overlaps, errors: load.errors, grow: load.fencesGrow }).toEqual({
      overlaps: 0,
      errors: [],
      grow: true,
    });
  });

  it("leases of one slot are renewed also while some of them have moved and others not (P2)", async () => {
    const [one, two] = open(servers.url) as [Locks, Locks];
    const slot = slotOf("twin");
    const twins = ["twin"];
    for (let n = 0; twins.length < 4; n += 1) if (slotOf(`twin ${n}`) === slot) twins.push(`twin ${n}`);
    const [permits, ...plain] = twins as [string, ...string[]];
    const leases = await Promise.all([
      ...plain.map((key, at) => (at % 2 === 0 ? one : two).acquire(key, { ttl: "3s" })),
      // Permits have a record of two Redis keys, which cannot change while these are on different nodes.
      ...[one, two].map((locks) => locks.acquire(permits, { ttl: "30s", limit: 2 })),
    ]);
    const from = await primaryOf("twin");
    await moveSlot(servers, slot, from, await otherPrimary(from), 5_000);
    expect(await Promise.all(leases.map((lease) => lease.verify()))).toEqual(leases.map(() => true));
    await Promise.all(leases.map((lease) => lease.release()));
  });

  it("one that lost a primary and its replica is unavailable by name, and comes back (P13, P17)", async () => {
    const [locks] = open(servers.url) as [Locks];
    const lease = await locks.acquire("hole", { ttl: "2s" });
    const primary = await primaryOf("hole");
    const id = /\r\n(\w{40})\r\n/.exec(await primary.ask("CLUSTER", "MYID"))?.[1] ?? "";
    const replicas: RedisNode[] = [];
    for (const node of servers.nodes) {
      if (new RegExp(`myself,slave ${id}`).test(await node.ask("CLUSTER", "NODES"))) replicas.push(node);
    }
    expect(replicas.length).toBeGreaterThan(0);
    await Promise.all([primary, ...replicas].map((node) => node.kill()));
    const refused = await locks.acquire("hole", { wait: "2s" }).catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: "ERR_STORE_UNAVAILABLE" });
    expect(String((refused as Error).message)).toMatch(/ECONNREFUSED|CLUSTERDOWN|connection|did not answer/);
    await until("the loss", () => lease.signal.aborted);
    await Promise.all([primary, ...replicas].map((node) => node.start()));
    await servers.settled();
    const next = await locks.acquire("hole", { wait: "150s" });
    expect(next.fence > lease.fence).toBe(true);
    await next.release();
  });
});
