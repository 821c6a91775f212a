// Cost against n on one Redis: n waiters of one key (idle cost and hand-off), n readers and n permits of one
// key (cost of one more), refused tries on a full semaphore, and what an idle key leaves behind. Fails where a
// cost grows faster than log n.

import { createLocks, type Lease, type Locks } from "../src/index.ts";
import { startRedis } from "../scripts/servers/redis.ts";
import { SharedRedis } from "./lib/shared-redis.ts";
import { ServerMeter } from "./lib/redis-meter.ts";
import { quantile, round } from "./lib/stats.ts";

const WAITERS = numbers("BENCH_WAITERS", [10, 100, 1_000, 10_000]);
const HOLDERS = numbers("BENCH_HOLDERS", [10, 1_000, 10_000]);
const CONNECTIONS = 16;
const IDLE_MS = 10_000;
const SAMPLES = 300;
const REFUSED = 4_000;
/** What noise may add to a curve that grows with log n. */
const NOISE = 2;

interface Cost {
  readonly n: number;
  readonly value: number;
}

export async function run(): Promise<object> {
  const server = await startRedis({ own: true });
  const meter = await ServerMeter.open(server.url);
  try {
    const waiters: WaiterFigures[] = [];
    for (const n of WAITERS) waiters.push(await measureWaiters(server.url, meter, n));
    const readers = await measureHolders(server.url, { mode: "shared" });
    const permits = await measureHolders(server.url, { limit: 1_000_000 });
    const figures = {
      waiters,
      readers,
      permits,
      refusedTries: await measureRefusals(server.url, meter),
      idleKeys: await measureIdleKeys(server.url, meter),
    };
    console.dir(figures, { depth: 4 });
    const tooSteep = [
      ...steeperThanLog("ms per hand-off", points(waiters, "msPerHandOff")),
      ...["acquireUs", "extendUs", "releaseUs"].flatMap((cost) => [
        ...steeperThanLog(`readers, ${cost}`, points(readers, cost)),
        ...steeperThanLog(`permits, ${cost}`, points(permits, cost)),
      ]),
    ];
    if (tooSteep.length > 0) throw new Error(`steeper than log n: ${tooSteep.join("; ")}`);
    return figures;
  } finally {
    meter.close();
    await server.stop();
  }
}

interface WaiterFigures {
  readonly n: number;
  readonly serverPercent: number;
  readonly commandsPerSecond: number;
  readonly bytesPerSecond: number;
  readonly msPerHandOff: number;
  readonly inOrder: boolean;
}

/** n opened stores wait for one key; then the key goes through all of them. */
async function measureWaiters(url: string, meter: ServerMeter, n: number): Promise<WaiterFigures> {
  const shared = new SharedRedis(url, CONNECTIONS);
  const locks = Array.from({ length: n }, () => createLocks(shared.store(), { handoff: 0, deadlock: false }));
  const [holder, key] = [createLocks(shared.store()), `waiters-${n}`];
  const lease = await holder.acquire(key, { ttl: "5m" });
  const served: string[] = [];
  const done = locks.map(async (one, at) => {
    const got = await one.acquire(key, { wait: Number.POSITIVE_INFINITY, label: String(at) });
    served.push(String(at));
    await got.release();
  });
  const queue = await untilQueued(holder, key, n);
  const before = await meter.read();
  await pause(IDLE_MS);
  const idle = await meter.since(before);
  const startMs = performance.now();
  await lease.release();
  await Promise.all(done);
  const drainMs = performance.now() - startMs;
  await Promise.all([holder, ...locks].map((one) => one.close()));
  shared.close();
  const figures = {
    n,
    serverPercent: round((idle.cpuUs / IDLE_MS / 1_000) * 100),
    commandsPerSecond: round(idle.scripts / (IDLE_MS / 1_000)),
    bytesPerSecond: round(idle.bytesIn / (IDLE_MS / 1_000)),
    msPerHandOff: round(drainMs / n),
    inOrder: served.join() === queue.join(),
  };
  console.log("waiters", figures);
  return figures;
}

/** The labels of the waiters, in the order of the queue. */
async function untilQueued(locks: Locks, key: string, n: number): Promise<string[]> {
  for (;;) {
    const waiters = (await locks.inspect(key))?.waiters ?? [];
    if (waiters.length === n) return waiters.map(({ label }) => label);
    await pause(200);
  }
}

interface HolderFigures {
  readonly n: number;
  readonly acquireUs: number;
  readonly extendUs: number;
  readonly releaseUs: number;
}

/** One more reader or permit beside n others. */
async function measureHolders(
  url: string,
  options: { readonly mode?: "shared"; readonly limit?: number },
): Promise<HolderFigures[]> {
  const all: HolderFigures[] = [];
  for (const n of HOLDERS) {
    const locks = createLocks(url, { ttl: "10m" });
    const key = `holders-${n}-${options.mode ?? "permits"}`;
    const held = await Promise.all(
      Array.from({ length: n }, () => locks.acquire(key, { ...options, wait: "2m" })),
    );
    const [acquire, extend, release]: [number[], number[], number[]] = [[], [], []];
    for (let i = 0; i < SAMPLES; i += 1) {
      const lease: Lease = await timed(acquire, () => locks.acquire(key, options));
      await timed(extend, () => lease.extend());
      await timed(release, () => lease.release());
    }
    await Promise.all(held.map((lease) => lease.release()));
    await locks.close();
    const p50 = (samples: readonly number[]): number => round(quantile(samples, 0.5));
    all.push({ n, acquireUs: p50(acquire), extendUs: p50(extend), releaseUs: p50(release) });
    console.log(options, all.at(-1));
  }
  return all;
}

async function timed<T>(into: number[], work: () => Promise<T>): Promise<T> {
  const start = process.hrtime.bigint();
  const result = await work();
  into.push(Number(process.hrtime.bigint() - start) / 1e3);
  return result;
}

async function measureRefusals(url: string, meter: ServerMeter): Promise<object> {
  const locks = createLocks(url);
  const held = await Promise.all([1, 2].map(() => locks.acquire("full", { limit: 2 })));
  const other = createLocks(url);
  const before = await meter.memoryOf("holdfast:{full}");
  for (let i = 0; i < REFUSED; i += 1) {
    if ((await other.tryAcquire("full", { limit: 2 })) !== null) throw new Error("a full semaphore granted");
  }
  const after = await meter.memoryOf("holdfast:{full}");
  await Promise.all(held.map((lease) => lease.release()));
  await Promise.all([locks.close(), other.close()]);
  return { tries: REFUSED, bytesBefore: before, bytesAfter: after };
}

async function measureIdleKeys(url: string, meter: ServerMeter): Promise<object> {
  const locks = createLocks(url, { namespace: "idle" });
  const before = await meter.keys();
  for (let i = 0; i < 1_000; i += 1) await (await locks.acquire(`k${i}`)).release();
  const after = await meter.keys();
  await locks.close();
  return { keysUsed: 1_000, keysLeft: after - before };
}

function points(rows: readonly object[], cost: string): Cost[] {
  return rows.map((row) => {
    const { n, [cost]: value = Number.NaN } = row as { readonly n: number } & Record<string, number>;
    return { n, value };
  });
}

/** Names the curve if its end is higher than its beginning times the growth of log n, noise allowed. */
function steeperThanLog(name: string, costs: readonly Cost[]): string[] {
  const [first, last] = [costs[0] as Cost, costs.at(-1) as Cost];
  const allowed = first.value * (Math.log(last.n) / Math.log(first.n)) * NOISE;
  return last.value <= allowed ? [] : [`${name}: ${first.value} at ${first.n}, ${last.value} at ${last.n}`];
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function numbers(variable: string, usual: readonly number[]): readonly number[] {
  return process.env[variable]?.split(",").map(Number) ?? usual;
}
