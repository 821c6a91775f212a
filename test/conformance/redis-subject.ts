// One Redis node as the subject of the suite, with the settings under which it may promise what it does: every write is on
// disk before it is acknowledged, so that a restart forgets nothing.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../scripts/servers/ports.ts";
import type { RunningServer } from "../../scripts/servers/process.ts";
import { startRedis } from "../../scripts/servers/redis.ts";
import { redis, redisGuarantees } from "../../src/stores/redis/index.ts";
import type { Store } from "../../src/index.ts";
import type { Server, Subject } from "../../src/testing/index.ts";
import { Resp } from "../servers/resp.ts";

export type Driver = "redis" | "ioredis";

class DurableRedis implements Server {
  readonly #dataFolder = mkdtempSync(join(tmpdir(), "holdfast-redis-data-"));
  #port = 0;
  #server: RunningServer | null = null;

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
  }

  async restart(): Promise<void> {
    this.#server?.kill("SIGKILL");
    await this.#server?.stop();
    await this.start();
  }

  async stop(): Promise<void> {
    await this.#server?.stop();
    rmSync(this.#dataFolder, { recursive: true, force: true });
  }
}

/** By URL with either client, or with one client that all stores are given. */
export function redisSubject(
  driver: Driver = "redis",
  shared?: { open(url: string): Promise<object>; close(): Promise<void> },
): { readonly store: Subject; readonly server: Server } {
  const server = new DurableRedis();
  let given: Promise<object> | null = null;
  const create = async (): Promise<Store> => {
    if (shared === undefined) return redis({ url: server.url, driver });
    given ??= shared.open(server.url);
    return redis({ client: await given });
  };
  const store: Subject = {
    name: shared === undefined ? `redis by URL, ${driver}` : `redis with a client of ${driver}`,
    guarantees: redisGuarantees,
    create,
    child: () => ({
      module: join(import.meta.dirname, "redis-child.ts"),
      args: [server.url, driver],
    }),
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

async function countKeys(port: number, namespace: string): Promise<number> {
  const asked = await Resp.open(port);
  try {
    return ((await asked.ask("KEYS", `${namespace}:*`)) as string[]).length;
  } finally {
    asked.close();
  }
}
