// A holder and twenty waiters on an ensemble whose leader is struck down: who was granted what and when, and
// how long it took from the moment when there was a leader again.

import { type Ensemble, startEnsemble } from "../../../scripts/servers/zookeeper.ts";
import { createLocks, type Lease, type Locks } from "../../../src/index.ts";

export interface Failover {
  readonly grants: number;
  /** Grants at whose moment another lease was held. */
  readonly overlaps: number;
  /** Grants whose fence was not larger than the one before. */
  readonly fenceErrors: number;
  /** Whether the holder still held when it let go. */
  readonly keptByHolder: boolean;
  /** From the strike until another member led. */
  readonly electionMs: number;
  /** From then until the next grant. */
  readonly nextGrantMs: number;
}

const WAITERS = 20;
const SECTION_MS = 5;

export async function failover(signal: "SIGKILL" | "SIGSTOP"): Promise<Failover> {
  const ensemble = await startEnsemble(3);
  const url = `${ensemble.url}/failover?sessionTimeout=8s`;
  const all: Locks[] = Array.from({ length: WAITERS + 1 }, () => createLocks(url, { ttl: "8s" }));
  const [holder, ...waiters] = all as [Locks, ...Locks[]];
  const granted: { lease: Lease; atMs: number }[] = [];
  let overlaps = 0;
  try {
    const first = await holder.acquire("k");
    granted.push({ lease: first, atMs: performance.now() });
    const waiting = waiters.map((locks) =>
      locks.using("k", { wait: "60s" }, async (lease) => {
        if (granted.some((before) => before.lease.held)) overlaps += 1;
        granted.push({ lease, atMs: performance.now() });
        await new Promise((resolve) => setTimeout(resolve, SECTION_MS));
      }),
    );
    while (((await holder.inspect("k"))?.waiters?.length ?? 0) < WAITERS)
      await new Promise((resolve) => setTimeout(resolve, 20));
    const { electionMs, ledAtMs } = await strike(ensemble, signal);
    const keptByHolder = first.held;
    await first.release().catch(() => false);
    await Promise.all(waiting);
    const fenceErrors = granted.filter(
      ({ lease }, at) => at > 0 && lease.fence <= (granted[at - 1] as (typeof granted)[number]).lease.fence,
    ).length;
    const nextGrantMs = (granted[1]?.atMs ?? Number.NaN) - ledAtMs;
    return { grants: granted.length, overlaps, fenceErrors, keptByHolder, electionMs, nextGrantMs };
  } finally {
    for (const member of ensemble.members) member.kill("SIGCONT");
    await Promise.all(all.map((locks) => locks.close({ drain: 0 })));
    await ensemble.stop();
  }
}

/** Strikes the leader and waits until another one leads. */
async function strike(
  ensemble: Ensemble,
  signal: "SIGKILL" | "SIGSTOP",
): Promise<{ readonly electionMs: number; readonly ledAtMs: number }> {
  const leader = await ensemble.leader();
  const others = ensemble.members.filter((member) => member !== leader);
  const struckAtMs = performance.now();
  leader.kill(signal);
  for (;;) {
    const modes = await Promise.all(others.map((member) => member.mode()));
    if (modes.includes("leader")) break;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  const ledAtMs = performance.now();
  return { electionMs: ledAtMs - struckAtMs, ledAtMs };
}
