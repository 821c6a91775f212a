// An operator lets a Redis evict that had promised not to: its policy is changed under those who use it, and junk is written
// until records of locks are really gone. What is evicted is free for anybody; only the fence is left.

import { setTimeout as sleep } from "node:timers/promises";
import { askRedis } from "../../scripts/servers/redis-node.ts";
import type { Trick } from "./target.ts";

/** A server that is to evict. */
export interface Evicting {
  readonly port: number;
  /** What the names of junk begin with, so that they belong to this server. */
  readonly tag: string;
}

/** How much it may use beyond what it uses. */
const ROOM_BYTES = 128 * 1_024;
const JUNK = "x".repeat(64 * 1_024);
/** Records of locks are there most of the time, not always. */
const HAPPENS_MS = 10_000;
const PAUSE_MS = 5;

/** `next` says where it happens this time. */
export function eviction(next: () => Promise<readonly Evicting[]>): Trick {
  let under: readonly { readonly port: number; readonly junk: readonly string[] }[] = [];
  return {
    everyMs: [500, 1_500],
    forMs: [0, 1_000],
    survives: "eviction",
    async begin() {
      const servers = await next();
      under = await Promise.all(
        servers.map(async (server) => ({ port: server.port, junk: await evictSome(server) })),
      );
    },
    async end() {
      await Promise.all(under.map(({ port }) => set(port, "noeviction", 0)));
      const littered = under.filter(({ junk }) => junk.length > 0);
      await Promise.all(littered.map(({ port, junk }) => askRedis(port, "UNLINK", ...junk)));
    },
  };
}

/** Resolves to the junk that was written, when at least one record that is none was evicted. */
async function evictSome({ port, tag }: Evicting): Promise<readonly string[]> {
  const before = await numberOf(port, "stats", "evicted_keys");
  const usedBytes = await numberOf(port, "memory", "used_memory");
  await set(port, "allkeys-random", usedBytes + ROOM_BYTES);
  const junk: string[] = [];
  const endMs = performance.now() + HAPPENS_MS;
  while (performance.now() < endMs) {
    const name = `${tag}junk:${junk.length}`;
    const written = askRedis(port, "SET", name, JUNK).then(
      () => true,
      () => false, // refused: there was nothing left to evict
    );
    if (await written) junk.push(name);
    // In this order: what is evicted in between counts as junk.
    const evicted = (await numberOf(port, "stats", "evicted_keys")) - before;
    const left = junk.length === 0 ? 0 : integer(await askRedis(port, "EXISTS", ...junk));
    if (evicted - (junk.length - left) > 0) return junk;
    await sleep(PAUSE_MS);
  }
  throw new Error(`no record of a lock was evicted within ${HAPPENS_MS} ms`);
}

function set(port: number, policy: string, bytes: number): Promise<string> {
  return askRedis(port, "CONFIG", "SET", "maxmemory-policy", policy, "maxmemory", String(bytes));
}

async function numberOf(port: number, section: string, name: string): Promise<number> {
  return Number(new RegExp(`^${name}:(\\d+)`, "m").exec(await askRedis(port, "INFO", section))?.[1]);
}

const integer = (reply: string): number => Number(/^:(\d+)/.exec(reply)?.[1]);
