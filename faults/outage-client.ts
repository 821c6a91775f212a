// The process of an outage run that locks under load. It is asked by messages, one at a time, and answers
// each. It runs with --expose-gc, so that what it reports of its memory is what it holds.

import http2 from "node:http2";
import { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { AskClient, ClientFigures } from "./outage.ts";
import { createLocks, type Lease, type Locks } from "../src/index.ts";

const TICK_MS = 10;
/** A process that was kept from running catches up on no more: it would never come to the answers. */
const MOST_OWED_MS = 100;
const KEYS = 500;
const RETRY_MS = 20;
const SETTLE_MS = 3_000;
/** A call under way ends within its timeout of 2 s. */
const DRAIN_MS = 10_000;
const SHOWN_FAILURES = 3;
const SHOWN_LETTERS = 160;
const MOST_KINDS = 100;

const [url = "", ttl = ""] = process.argv.slice(2);
const locks: Locks = createLocks(url, { ttl: ttl as "2s" });
const counts = { underWay: 0, granted: 0, failed: 0, writes: 0 };
/** How often calls failed in the last load, by their message without its numbers. */
const failures = new Map<string, number>();

const write = Reflect.get(Socket.prototype, "write") as (...args: unknown[]) => boolean;
Socket.prototype.write = function (this: Socket, ...args: unknown[]): boolean {
  counts.writes += 1;
  return Reflect.apply(write, this, args);
} as typeof Socket.prototype.write;

// The client of etcd: a session of HTTP/2 writes to its socket without that method, so its messages count.
const connect = http2.connect as (...args: unknown[]) => http2.ClientHttp2Session;
http2.connect = ((...args: unknown[]): http2.ClientHttp2Session => {
  const session = connect(...args);
  const request = session.request.bind(session);
  session.request = (...asked): http2.ClientHttp2Stream => {
    const stream = request(...asked);
    const send = stream.write.bind(stream) as (...message: unknown[]) => boolean;
    stream.write = (...message: unknown[]): boolean => {
      counts.writes += 1;
      return send(...message);
    };
    return stream;
  };
  return session;
}) as typeof http2.connect;

process.on("message", (ask: AskClient) => {
  answer(ask).then(
    (figures) => process.send?.(figures),
    (error: unknown) => process.send?.({ error: String(error) }),
  );
});
process.on("disconnect", () => process.exit());
process.send?.({});

async function answer(ask: AskClient): Promise<Partial<ClientFigures>> {
  if (ask.do === "load") return load(ask.perSecond, ask.seconds);
  if (ask.do === "idle") return idle(ask.seconds);
  return recover();
}

async function load(perSecond: number, seconds: number): Promise<Partial<ClientFigures>> {
  const before = { ...counts };
  failures.clear();
  const startedMs = performance.now();
  const endMs = startedMs + seconds * 1_000;
  let [sent, paidMs] = [0, startedMs];
  for (let nowMs = startedMs; nowMs < endMs; nowMs = performance.now()) {
    paidMs = Math.max(paidMs, nowMs - MOST_OWED_MS);
    for (; paidMs < nowMs; paidMs += 1_000 / perSecond, sent += 1) void cycle(`outage:${sent % KEYS}`);
    await sleep(TICK_MS);
  }
  for (let leftMs = DRAIN_MS; counts.underWay > 0 && leftMs > 0; leftMs -= TICK_MS) await sleep(TICK_MS);
  return {
    sent,
    granted: counts.granted - before.granted,
    failed: counts.failed - before.failed,
    failures: [...failures].toSorted((a, b) => b[1] - a[1]).slice(0, SHOWN_FAILURES),
    heapMb: heapMb(),
  };
}

async function cycle(key: string): Promise<void> {
  counts.underWay += 1;
  try {
    const lease: Lease | null = await locks.tryAcquire(key);
    if (lease !== null) counts.granted += 1;
    await lease?.release();
  } catch (error) {
    counts.failed += 1;
    const what = String(error).replaceAll(/\d+/g, "N").slice(0, SHOWN_LETTERS);
    if (failures.has(what) || failures.size < MOST_KINDS) failures.set(what, (failures.get(what) ?? 0) + 1);
  } finally {
    counts.underWay -= 1;
  }
}

async function idle(seconds: number): Promise<Partial<ClientFigures>> {
  // What the load left to the garbage collector and to the compiler is not idle time.
  await sleep(SETTLE_MS);
  const before = process.cpuUsage();
  const startedMs = performance.now();
  await sleep(seconds * 1_000);
  const { user, system } = process.cpuUsage(before);
  return { heapMb: heapMb(), idleCpuPercent: (user + system) / 10 / (performance.now() - startedMs) };
}

/**
 * The first grant of a key that was asked for during the outage, and what was written in the first second.
 */
async function recover(): Promise<Partial<ClientFigures>> {
  const startedMs = performance.now();
  const before = counts.writes;
  let writes = -1;
  const second = sleep(1_000).then(() => (writes = counts.writes - before));
  for (;;) {
    const lease = await locks.tryAcquire("outage:0").catch(() => null);
    if (lease !== null) {
      const firstGrantMs = performance.now() - startedMs;
      await lease.release().catch(() => false);
      await second;
      return { firstGrantMs, writesInFirstSecond: writes };
    }
    await sleep(RETRY_MS);
  }
}

function heapMb(): number {
  for (let i = 0; i < 3; i += 1) globalThis.gc?.();
  return process.memoryUsage().heapUsed / 1e6;
}
