// Five independent Redis masters that keep nothing on disk, so that a node which is killed has forgotten everything and must sit out;
// `redlock-rdb` keeps snapshots, which remember too little, and `redlock-aof` every write. The longest ttl is short, so that a
// node which sits out votes again within the run.

import { join } from "node:path";
import { findProgram } from "../../scripts/servers/packages.ts";
import { askRedis } from "../../scripts/servers/redis-node.ts";
import { redisProgram, startRedis } from "../../scripts/servers/redis.ts";
import { createLocks } from "../../src/index.ts";
import { redlockGuarantees } from "../../src/stores/redlock/index.ts";
import { Disk } from "../disk.ts";
import { type Filling, FULL_DISK, fullDisk } from "./full-disk.ts";
import { type Evicting, eviction } from "./eviction.ts";
import { OwnedServer } from "./owned-server.ts";
import { versionIn } from "./redis-version.ts";
import { redisClock, serverClock } from "./server-clock.ts";
import type { FaultyClock, Target, TargetMaker, Trick } from "./target.ts";

const NODES = 5;
const MAX_TTL = "2s";
const READY_MS = 15_000;

export const redlockTarget: TargetMaker = (folder, fault) => made(folder, fault, []);
export const redlockRdbTarget: TargetMaker = (folder, fault) => kept(folder, fault, ["--save", "1 1"]);
export const redlockAofTarget: TargetMaker = (folder, fault) =>
  kept(folder, fault, ["--appendonly", "yes", "--appendfsync", "always"], [FULL_DISK]);

/** What nodes keep shows only where they are started again. */
async function kept(
  folder: string,
  fault: string,
  args: readonly string[],
  more: readonly string[] = [],
): Promise<Target> {
  return { ...(await made(folder, fault, args)), only: ["server-kill", "nodes-mayhem", ...more] };
}

async function made(folder: string, fault: string, args: readonly string[]): Promise<Target> {
  const servers: OwnedServer[] = [];
  const clocks: FaultyClock[] = [];
  const disk = fault === FULL_DISK ? await Disk.open() : null;
  for (let at = 1; at <= NODES; at += 1) {
    const name = `redis-${at}`;
    const clock = await serverClock(fault, join(folder, `${name}.offset`));
    const server = await node(folder, name, args, { ...clock.env, ...disk?.environment });
    servers.push(server);
    clocks.push(redisClock(name, server.port, clock));
  }
  const url = urlOf(servers.map(({ port }) => port));
  await introduce(url);
  return {
    url,
    guarantees: redlockGuarantees,
    servers,
    clocks,
    survives: ["server restart", "server restart without its data"],
    through: urlOf,
    listens: /subscribe/i,
    tricks: {
      "nodes-mayhem": mayhem(servers),
      eviction: eviction(fewOrMany(servers)),
      [FULL_DISK]: fullDisk(disk, fillings(servers, folder), "server restart"),
    },
    version: `${versionIn(await askRedis(servers[0]?.port ?? 0, "INFO", "server"))}, five nodes`,
    async stop() {
      await Promise.all(servers.map((server) => server.stop()));
      disk?.close();
    },
  };
}

async function node(
  folder: string,
  name: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<OwnedServer> {
  const found = await findProgram(redisProgram);
  const program = { ...found, env: { ...found.env, ...env } };
  return OwnedServer.start({
    name,
    dataFolder: join(folder, name),
    start: (port, dataFolder) => startRedis({ own: true, port, dataFolder, args, program }),
  });
}

/** One of them, then a majority, then all. */
function fewOrMany(servers: readonly OwnedServer[]): () => Promise<Evicting[]> {
  const counts = [1, 3, NODES];
  let strikes = 0;
  return () => {
    const from = strikes;
    const count = counts[strikes % counts.length] as number;
    strikes += 1;
    const chosen = Array.from({ length: count }, (_, at) => servers[(from + at) % NODES] as OwnedServer);
    return Promise.resolve(chosen.map(({ port }) => ({ port, tag: "" })));
  };
}

/** The nodes are new, and that is said once: whoever comes later must not believe it of a node that was emptied. */
async function introduce(url: string): Promise<void> {
  const locks = createLocks(url, { allow: ["fresh-nodes"] });
  try {
    const lease = await locks.acquire("first", { ttl: 1_000, wait: READY_MS });
    // On a busy machine nobody may answer in time: then it ends with its ttl.
    await lease.release().catch(() => {});
  } finally {
    await locks.close();
  }
}

function urlOf(ports: readonly number[]): string {
  return `redlock://${ports.map((port) => `127.0.0.1:${port}`).join(",")}?maxTtl=${MAX_TTL}`;
}

/** One node after the other, and then all at once: they share a disk. A node that cannot write ends itself. */
function fillings(servers: readonly OwnedServer[], folder: string): readonly Filling[] {
  const one = servers.map((server) => ({ folder: join(folder, server.name), mend: () => server.revive() }));
  const mend = (): Promise<unknown> => Promise.all(servers.map((server) => server.revive()));
  return one.flatMap((filling) => [filling, { folder, mend }]);
}

/** One node after the other is frozen, killed and emptied, before the last one has recovered. */
function mayhem(servers: readonly OwnedServer[]): Trick {
  let strikes = 0;
  let frozen: OwnedServer | null = null;
  return {
    everyMs: [1_000, 2_500],
    forMs: [200, 1_500],
    async begin() {
      const server = servers[strikes % servers.length] as OwnedServer;
      const kind = strikes % 3;
      strikes += 1;
      if (kind === 0) {
        frozen = server;
        server.freeze();
      } else await (kind === 1 ? server.kill() : server.wipe());
    },
    end() {
      frozen?.thaw();
      frozen = null;
      return Promise.resolve();
    },
  };
}
