// Two servers that replicate both ways: either is killed, and one client is cut off from one of them, while
// twenty wait.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Proxy } from "../../../faults/proxy.ts";
import { MariadbPair } from "../../../scripts/servers/mariadb-pair.ts";
import { createLocks, type Locks } from "../../../src/index.ts";
import { nodeSystem } from "../../../src/system/node.ts";
import { io, Sections, until } from "./fixture.ts";

const MAX_TTL_MS = 1_500;
/** Silence of the old primary, then the pause of the new one, then some patience for a loaded machine. */
const TAKEN_OVER_MS = 3_000 + MAX_TTL_MS + 2_000;
const OPTIONS = { ttl: MAX_TTL_MS, wait: 100_000 };
const PROCESSES = 10;

let pair: MariadbPair;
let proxy: Proxy;
const opened: Locks[] = [];

const open = (url: string): Locks => {
  const locks = createLocks(url);
  opened.push(locks);
  return locks;
};

beforeAll(async () => {
  pair = await MariadbPair.start();
  proxy = await Proxy.listen({ host: "127.0.0.1", port: pair.nodes[0].port });
});

afterAll(async () => {
  for (const locks of opened) await locks.close({ drain: 0 });
  await proxy?.close();
  await pair?.stop();
});

const url = (): string => `${pair.url}?maxTtl=${MAX_TTL_MS}ms`;
/** The first server through the proxy, the second one directly. */
const farUrl = (): string => url().replace(`:${pair.nodes[0].port},`, `:${proxy.port},`);

const primaryOf = async (node: 0 | 1): Promise<string> => {
  const rows = await pair.nodes[node].query(
    "SELECT server FROM holdfast_primary ORDER BY since_us DESC LIMIT 1",
  );
  return String(rows[0]?.["server"]);
};

describe("a pair of servers, with twenty waiters", () => {
  it("is a remark of check(): they replicate behind the commit", async () => {
    expect(await open(url()).check()).toContainEqual(
      expect.objectContaining({ id: "asynchronous-replication", level: "info" }),
    );
  });

  it("goes on when either is killed: no overlap, and fences grow over it (P1, P3, P10)", async () => {
    const sections = new Sections();
    const all = Array.from({ length: PROCESSES }, () => open(url()));
    for (let who = 0; who < 2 * PROCESSES; who += 1)
      sections.start(all[who % PROCESSES] as Locks, who, "hot", OPTIONS);
    for (const [dead, alive] of [
      [0, 1],
      [1, 0],
    ] as const) {
      await until("ten grants", () => sections.all.length >= 10);
      const before = sections.all.length;
      await until("ten more", () => sections.all.length >= before + 10);
      const killedMs = nodeSystem.monoMs();
      await pair.nodes[dead].kill();
      await until("a grant by the other", () => sections.since(killedMs + 1_000).length > 0);
      const [next] = sections.since(killedMs + 1_000);
      const tookMs = (next?.startMs ?? 0) - killedMs;
      console.log(
        `server ${dead + 1} killed: next grant after ${Math.round(tookMs)} ms, fence ${sections.all.filter((one) => one.startMs < killedMs).at(-1)?.fence} then ${next?.fence}`,
      );
      expect(tookMs).toBeGreaterThanOrEqual(MAX_TTL_MS);
      expect(tookMs).toBeLessThan(10 * TAKEN_OVER_MS);
      const [present] = await pair.nodes[alive].query(
        "SELECT CONCAT(@@server_id, '@', @@hostname, ':', @@port) AS me",
      );
      expect(await primaryOf(alive)).toBe(String(present?.["me"]));
      await pair.nodes[dead].start();
      await pair.linked();
    }
    await sections.stop();
    sections.check();
    console.log(`${sections.all.length} grants, no overlap, ${sections.errors.length} refusals`);
    await Promise.all(all.map((locks) => locks.close()));
  });

  it("is not disturbed by one client that is cut off from a living primary, which is told so (P1, P17)", async () => {
    const sections = new Sections();
    const all = Array.from({ length: PROCESSES - 1 }, () => open(url()));
    for (const locks of all) await locks.inspect("first");
    const far = open(farUrl());
    await far.inspect("first");
    const before = await primaryOf(0);
    const [me] = await pair.nodes[0].query("SELECT CONCAT(@@server_id, '@', @@hostname, ':', @@port) AS me");
    expect(before, "the first server is the primary").toBe(String(me?.["me"]));
    for (let who = 0; who < 2 * PROCESSES; who += 1)
      sections.start(all[who % all.length] as Locks, who, "warm", OPTIONS);
    await until("ten grants", () => sections.all.length >= 10);
    proxy.cut();
    const cutMs = nodeSystem.monoMs();
    const refused = far.acquire("cold", { ttl: MAX_TTL_MS, wait: 2_500 }).then(
      () => "granted",
      (error: unknown) => (error as Error).message,
    );
    await io.sleep(4_500);
    const told = await refused;
    expect(await primaryOf(0)).toBe(before);
    expect(sections.since(cutMs + 3_500).length, "grants while one is cut off").toBeGreaterThan(0);
    expect(told).toMatch(/cannot be reached from here|did not answer/);
    proxy.heal();
    const lease = await far.acquire("cold", { ttl: MAX_TTL_MS, wait: 100_000 });
    await lease.release();
    await sections.stop();
    sections.check();
  });
});

describe("a primary that is slow", () => {
  it("is not given up because calls of short leases end before it has answered (P13)", async () => {
    const far = open(farUrl());
    // All connections that it will use.
    await Promise.all(
      Array.from({ length: 12 }, async (_one, at) => (await far.acquire(`warm-${at}`, OPTIONS)).release()),
    );
    const [me] = await pair.nodes[0].query("SELECT CONCAT(@@server_id, '@', @@hostname, ':', @@port) AS me");
    expect(await primaryOf(0), "the first server is the primary").toBe(String(me?.["me"]));
    proxy.delay(30);
    let [hasty, over] = [0, false];
    // A call of a lease of 150 ms may take 50 ms, and no answer comes within them.
    const haste = Array.from({ length: 3 }, async (_one, at) => {
      while (!over) {
        await far.tryAcquire(`hasty-${at}`, { ttl: 150 }).catch(() => (hasty += 1));
        await io.sleep(5);
      }
    });
    const connections = async (): Promise<number> => {
      const [row] = await pair.nodes[0].query("SHOW GLOBAL STATUS LIKE 'Connections'");
      return Number(row?.["Value"]);
    };
    await until("some calls that ended", () => hasty > 10);
    const before = await connections();
    for (let turn = 0; turn < 5; turn += 1) await (await far.acquire("slow", OPTIONS)).release();
    const made = (await connections()) - before;
    over = true;
    await Promise.all(haste);
    proxy.heal();
    console.log(`a slow primary: ${hasty} calls ended too soon, ${made} connections were made meanwhile`);
    // Two are those that count.
    expect(made).toBeLessThan(20);
  });
});

describe("a new primary", () => {
  it("grants nothing before a lease of the old one is over that it does not know of, and fences grow (P1, P3)", async () => {
    const [one, two] = pair.nodes;
    await two.query("STOP SLAVE");
    const holder = open(url());
    const lease = await holder.acquire("secret", OPTIONS);
    let lastHeldMs = 0;
    const watching = (async () => {
      for (let nowMs = nodeSystem.monoMs(); lease.held; nowMs = nodeSystem.monoMs()) {
        lastHeldMs = nowMs;
        await io.sleep(1);
      }
    })();
    // A planned switch: the old primary answers and says that it is none any more, so the other takes over
    // at once.
    await one.query("SET GLOBAL read_only = 1");
    const sinceMs = nodeSystem.monoMs();
    const other = open(url());
    const next = await other.acquire("secret", OPTIONS);
    const grantedMs = nodeSystem.monoMs();
    await watching;
    expect(lastHeldMs, "the old holder was seen to hold").toBeGreaterThan(sinceMs);
    expect(lastHeldMs).toBeLessThan(grantedMs);
    expect(grantedMs - sinceMs).toBeGreaterThan(MAX_TTL_MS);
    expect(next.fence > lease.fence).toBe(true);
    await next.release();
    await one.query("SET GLOBAL read_only = 0");
    await two.query("START SLAVE");
    await pair.linked();
  });

  it("refuses a lease that would outlast its pause, by name (P17)", async () => {
    const locks = open(url());
    await expect(locks.acquire("long", { ttl: MAX_TTL_MS + 1 })).rejects.toMatchObject({
      code: "ERR_LOCK_ARGUMENT",
      message: expect.stringContaining("maxTtl") as string,
    });
  });
});
