// One Redis node as the subject of the suite, with the settings under which it may promise what it does: every write is on
// disk before it is acknowledged, so that a restart forgets nothing.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "../../../scripts/servers/ports.ts";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import { startRedis } from "../../../scripts/servers/redis.ts";
import { redis, type RedisClient } from "../../../src/stores/redis/index.ts";
import type { Store } from "../../../src/index.ts";
import type { Server, Subject } from "../../../src/testing/index.ts";
import { Resp } from "./resp.ts";

/** undefined: connections of holdfast's own. */
export type Driver = "redis" | "ioredis" | undefined;

/** What of the options differs from case to case, as a URL says it. */
export interface Variant {
  readonly replicas?: number;
  readonly scripts?: boolean;
}

class DurableRedis implements Server {
  readonly #dataFolder = mkdtempSync(join(tmpdir(), "holdfast-redis-data-"));
  readonly #replicas: number;
  readonly #followers: RunningServer[] = [];
  #port = 0;
  #server: RunningServer | null = null;

  constructor(replicas: number) {
    this.#replicas = replicas;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.#port}`;
  }

  get port(): number {
    return this.#port;
  }

  async start(): Promise<void> {
    this.#port ||= await freePort();
    this.#server = await startRedis({
      own: true,
      port: this.#port,
      dataFolder: this.#dataFolder,
      args: ["--appendonly", "yes", "--appendfsync", "always"],
    });
    while (this.#followers.length < this.#replicas) {
      const args = ["--replicaof", "127.0.0.1", String(this.#port)];
      this.#followers.push(await startRedis({ own: true, args }));
    }
    await this.#attached();
  }

  /** Until every replica acknowledges a write. */
  async #attached(): Promise<void> {
    const asked = await Resp.open(this.#port);
    const acknowledged = async (): Promise<number> => {
      await asked.ask("SET", "attached", "1");
      return Number(await asked.ask("WAIT", String(this.#replicas), "100"));
    };
    while ((await acknowledged()) < this.#replicas) await sleep(20);
    await asked.ask("DEL", "attached");
    asked.close();
  }

  async restart(): Promise<void> {
    this.#server?.kill("SIGKILL");
    await this.#server?.stop();
    await this.start();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#followers.map((follower) => follower.stop()));
    await this.#server?.stop();
    rmSync(this.#dataFolder, { recursive: true, force: true });
  }
}

/** By URL, or with one client that all stores are given. */
export function redisSubject(
  driver?: Driver,
  shared?: { open(url: string): Promise<RedisClient>; close(): Promise<void> },
  variant: Variant = {},
): { readonly store: Subject; readonly server: Server } {
  const server = new DurableRedis(variant.replicas ?? 0);
  let given: Promise<RedisClient> | null = null;
  const create = async (): Promise<Store> => {
    if (shared === undefined) return redis({ url: server.url, driver, ...variant });
    given ??= shared.open(server.url);
    return redis({ client: await given, ...variant });
  };
  const store: Subject = {
    name: `${nameOfWay(driver, shared !== undefined)}${nameOf(variant)}`,
    guarantees: redis({ url: "redis://h", ...variant }).guarantees,
    create,
    child: () =>
      driver === undefined && Object.keys(variant).length === 0
        ? { url: server.url }
        : {
            module: join(import.meta.dirname, "conformance-child.ts"),
            args: [server.url, driver ?? "", JSON.stringify(variant)],
          },
    footprint: (namespace) => countKeys(server.port, namespace),
  };
  return {
    store,
    server: {
      start: () => server.start(),
      restart: () => server.restart(),
      async stop() {
        await shared?.close();
        await server.stop();
      },
    },
  };
}

function nameOfWay(driver: Driver, isGiven: boolean): string {
  if (isGiven) return `redis with a client of ${driver}`;
  return driver === undefined ? "redis by URL" : `redis by URL, ${driver}`;
}

function nameOf(variant: Variant): string {
  return Object.entries(variant)
    .map(([name, value]) => `, ${name}: ${value}`)
    .join("");
}

async function countKeys(port: number, namespace: string): Promise<number> {
  const asked = await Resp.open(port);
  try {
    return ((await asked.ask("KEYS", `${namespace}:*`)) as string[]).length;
  } finally {
    asked.close();
  }
}
