// `npm run faults -- --half-open --store redis`: how long it takes until the next grant when the connections
// that exist fall silent and new ones work, as after a NAT timeout (P13).
//
// 1. A client behind proxies holds a lease, and has as many connections as its pool keeps.
// 2. The proxies silence all connections that exist.
// 3. The client asks for another key until it is granted. Its lease must still be held.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLocks } from "../src/index.ts";
import { Proxy } from "./proxy.ts";
import { targetNamed } from "./targets/index.ts";
import type { Target } from "./targets/target.ts";

const ROUNDS = 3;
/** More than a store keeps in its pool. */
const MANY = 8;
/** What the next grant may take. */
const MOST_MS = 5_000;

export const HALF_OPEN_RESULTS: string = join(import.meta.dirname, "half-open.jsonl");

export interface HalfOpenFigures {
  readonly store: string;
  /** Until the next grant, of each round. */
  readonly tookMs: readonly number[];
  /** In how many rounds the lease of before was still held. */
  readonly kept: number;
  readonly version: string;
}

export async function halfOpen(store: string): Promise<HalfOpenFigures> {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-half-open-"));
  let target: Target | null = null;
  try {
    target = await targetNamed(store)(folder, "half-open");
    const rounds: Round[] = [];
    // The redlock of the fault runs accepts no longer ttl.
    const ttl = store.startsWith("redlock") ? "2s" : "30s";
    for (let at = 0; at < ROUNDS; at += 1) rounds.push(await oneRound(target, `round-${at}`, ttl));
    return {
      store,
      tookMs: rounds.map(({ tookMs }) => Math.round(tookMs)),
      kept: rounds.filter(({ kept }) => kept).length,
      version: target.version ?? "",
    };
  } finally {
    await target?.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** One line of text, and what is wrong with it. */
export function judgedHalfOpen({ store, tookMs, kept }: HalfOpenFigures): {
  readonly line: string;
  readonly wrong: readonly string[];
} {
  const lease = `lease kept in ${kept} of ${tookMs.length} rounds`;
  const line = `${store}: next grant after ${tookMs.join(", ")} ms, ${lease}`;
  const slow = tookMs.filter((ms) => ms > MOST_MS);
  return {
    line,
    wrong: slow.map((ms) => `${store}: the next grant took ${ms} ms, and ${MOST_MS} ms are allowed`),
  };
}

interface Round {
  readonly tookMs: number;
  readonly kept: boolean;
}

async function oneRound(
  { servers, through, told, allow = [] }: Target,
  namespace: string,
  ttl: "2s" | "30s",
): Promise<Round> {
  if (through === undefined) throw new Error("clients of this store cannot be sent through a proxy");
  const ports = told ?? servers.map(({ port }) => port);
  const proxies = await Promise.all(ports.map((port) => Proxy.listen({ host: "127.0.0.1", port })));
  const own = proxies.map(({ port }) => port);
  if (told !== undefined) for (const proxy of proxies) proxy.rename(ports, own);
  const locks = createLocks(through(own), { namespace, ttl, allow: [...allow] });
  const options = { wait: "60s" } as const;
  try {
    const before = await locks.acquire("before", options);
    const many = await Promise.all(
      Array.from({ length: MANY }, (_none, at) => locks.acquire(`many ${at}`, options)),
    );
    await Promise.all(many.map((lease) => lease.release()));
    for (const proxy of proxies) proxy.halfOpen();
    const startedMs = performance.now();
    const next = await locks.acquire("next", options);
    const round = { tookMs: performance.now() - startedMs, kept: before.held };
    await next.release();
    await before.release().catch(() => false);
    return round;
  } finally {
    await locks.close({ drain: 0 });
    await Promise.all(proxies.map((proxy) => proxy.close()));
  }
}
