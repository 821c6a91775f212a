// One Redis node that has every write on disk before it acknowledges it, so that a restart forgets nothing; `server-wipe` is
// the node that does.

import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "redis";
import { findProgram } from "../../scripts/servers/packages.ts";
import { redisProgram, startRedis } from "../../scripts/servers/redis.ts";
import { redisGuarantees } from "../../src/stores/redis/index.ts";
import { Disk } from "../disk.ts";
import { type Filling, FULL_DISK, fullDisk } from "./full-disk.ts";
import { eviction } from "./eviction.ts";
import { OwnedServer } from "./owned-server.ts";
import { versionIn } from "./redis-version.ts";
import { redisClock, serverClock } from "./server-clock.ts";
import type { Target, Trick } from "./target.ts";

const DURABLE = ["--appendonly", "yes", "--appendfsync", "always"];
/** Less than an empty server needs. */
const FULL = "1";
const LOOK_EVERY_MS = 20;

export async function redisTarget(folder: string, fault: string): Promise<Target> {
  const clock = await serverClock(fault, join(folder, "redis.offset"));
  const found = await findProgram(redisProgram);
  const disk = fault === FULL_DISK ? await Disk.open() : null;
  const program = { ...found, env: { ...found.env, ...clock.env, ...disk?.environment } };
  const server = await OwnedServer.start({
    name: "redis",
    dataFolder: join(folder, "redis"),
    start: (port, dataFolder) => startRedis({ own: true, port, dataFolder, args: DURABLE, program }),
  });
  const say = (...words: string[]): Promise<string> => tell(server.port, words);
  return {
    url: urlOf(server.port),
    guarantees: redisGuarantees,
    servers: [server],
    clocks: [redisClock(server.name, server.port, clock)],
    survives: ["server restart"],
    through: ([port]) => urlOf(port as number),
    listens: /subscribe/i,
    tricks: {
      "script-flush": scriptFlush(say),
      "out-of-memory": outOfMemory(say),
      eviction: eviction(() => Promise.resolve([{ port: server.port, tag: "" }])),
      [FULL_DISK]: fullDisk(disk, fillings(server, join(folder, "redis"), say)),
    },
    version: versionIn(await say("INFO", "server")),
    async stop() {
      await server.stop();
      disk?.close();
    },
  };
}

const urlOf = (port: number): string => `redis://127.0.0.1:${port}`;

type Say = (...words: string[]) => Promise<string>;

const scriptFlush = (say: Say): Trick => ({
  everyMs: [50, 300],
  forMs: [0, 0],
  begin: async () => void (await say("SCRIPT", "FLUSH", "SYNC")),
  end: () => Promise.resolve(),
});

/** Who holds may renew and release, nobody new gets in (P17: and is told why). */
const outOfMemory = (say: Say): Trick => ({
  everyMs: [300, 1_000],
  forMs: [100, 2_000],
  begin: async () => void (await say("CONFIG", "SET", "maxmemory", FULL)),
  end: async () => void (await say("CONFIG", "SET", "maxmemory", "0")),
});

/** One that has every write on disk ends itself; one that writes once in a while refuses what changes anything (MISCONF). */
function fillings(server: OwnedServer, folder: string, say: Say): readonly Filling[] {
  const mend = (): Promise<void> => server.revive();
  const often = async (how: "always" | "everysec"): Promise<string> =>
    say("CONFIG", "SET", "appendfsync", how);
  return [
    { folder, mend },
    {
      folder,
      before: () => often("everysec"),
      async mend() {
        while (!(await say("INFO", "persistence")).includes("aof_last_write_status:ok"))
          await sleep(LOOK_EVERY_MS);
        await often("always");
      },
    },
  ];
}

async function tell(port: number, words: readonly string[]): Promise<string> {
  const client = createClient({ url: urlOf(port), socket: { reconnectStrategy: false } });
  // The call itself rejects.
  client.on("error", () => {});
  await client.connect();
  try {
    return await client.sendCommand<string>([...words]);
  } finally {
    client.destroy();
  }
}
