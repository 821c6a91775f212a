// A cluster of three that loses members while somebody holds and twenty wait: nobody is granted beside
// another, fences grow, and the next one is in soon after there is a leader again.

import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type EtcdCluster, type EtcdMember, startEtcdCluster } from "../../../scripts/servers/etcd.ts";
import { createLocks, type Lease, type Locks } from "../../../src/index.ts";

const WAITERS = 20;
/** Ten times the aim. */
const NEXT_GRANT_MS = 10_000;

let cluster: EtcdCluster;
const made: Locks[] = [];

beforeEach(async () => {
  cluster = await startEtcdCluster();
});

afterEach(async () => {
  for (const member of cluster.members) member.kill("SIGCONT");
  await Promise.all(made.splice(0).map((one) => one.close({ drain: 0 })));
  await cluster.stop();
});

function locks(): Locks {
  const one = createLocks(cluster.url, { handoff: 0 });
  made.push(one);
  return one;
}

interface Section {
  readonly fence: bigint;
  readonly fromMs: number;
  readonly toMs: number;
}

/** Somebody who waits, holds for a moment and lets go. */
async function section(one: Locks, sections: Section[]): Promise<void> {
  const lease = await one.acquire("key", { wait: 100_000, ttl: 5_000 });
  const fromMs = performance.now();
  await sleep(5);
  const held = lease.held;
  const toMs = performance.now();
  if (held) sections.push({ fence: lease.fence, fromMs, toMs });
  await lease.release().catch(() => false);
}

async function crowd(): Promise<{ holder: Lease; sections: Section[]; all: Promise<void[]> }> {
  const holder = await locks().acquire("key", { ttl: 30_000 });
  const sections: Section[] = [];
  const others = Array.from({ length: WAITERS }, () => locks());
  const all = Promise.all(others.map((one) => section(one, sections)));
  all.catch(() => {});
  const looking = locks();
  await expect
    .poll(async () => (await looking.inspect("key"))?.waiters?.length, { timeout: 100_000 })
    .toBe(WAITERS);
  return { holder, sections, all };
}

/** Without overlaps, and with fences in the order of time. */
function judge(holder: bigint, sections: readonly Section[]): void {
  const inTime = [...sections].sort((a, b) => a.fromMs - b.fromMs);
  let [fence, endMs] = [holder, 0];
  for (const one of inTime) {
    expect(one.fence).toBeGreaterThan(fence);
    expect(one.fromMs).toBeGreaterThanOrEqual(endMs);
    [fence, endMs] = [one.fence, one.toMs];
  }
}

describe.each([
  ["killed", (leader: EtcdMember): void => leader.kill("SIGKILL")],
  ["frozen", (leader: EtcdMember): void => leader.kill("SIGSTOP")],
] as const)("a leader that is %s", (how, harm) => {
  it("costs nobody a lock, and the next grant comes soon after the next leader (P1, P3, P11)", async () => {
    const { holder, sections, all } = await crowd();
    const leader = await cluster.led();
    harm(leader);
    const released = holder.release().catch(() => false);
    const ledAtMs = await nextLeader(leader);
    await all;
    await released;
    expect(sections.length).toBe(WAITERS);
    judge(holder.fence, sections);
    const firstMs = Math.min(...sections.map(({ fromMs }) => fromMs));
    const tookMs = Math.max(0, firstMs - ledAtMs);
    const lastMs = Math.max(...sections.map(({ toMs }) => toMs)) - ledAtMs;
    console.log(
      `leader ${how}: next grant ${tookMs.toFixed(0)} ms after the next leader, all ${WAITERS} after ${lastMs.toFixed(0)} ms`,
    );
    expect(tookMs).toBeLessThan(NEXT_GRANT_MS);
  });

  it("costs a holder that renews nothing (P2)", async () => {
    const lease = await locks().acquire("key", { ttl: 3_000 });
    const leader = await cluster.led();
    harm(leader);
    await nextLeader(leader);
    await sleep(4_000);
    expect(lease.held).toBe(true);
    expect(await lease.verify()).toBe(true);
    expect(await locks().tryAcquire("key")).toBeNull();
    expect(await lease.release()).toBe(true);
  });
});

/** When another one leads. */
async function nextLeader(before: EtcdMember): Promise<number> {
  for (;;) {
    for (const member of cluster.members) {
      if (member !== before && (await member.leads())) return performance.now();
    }
    await sleep(5);
  }
}
