// The real servers of the ladder: one Redis that keeps nothing on disk, and three more as independent
// masters.

import { createClient } from "redis";
import { createLocks, type Locks } from "holdfast";
import { freePort } from "../../scripts/servers/ports.ts";
import type { RunningServer } from "../../scripts/servers/process.ts";
import { startRedis } from "../../scripts/servers/redis.ts";
import type { Redis } from "./naive.ts";

export interface Servers {
  readonly redis: Redis;
  readonly url: string;
  readonly port: number;
  readonly locks: Locks;
  /** Killed and started again without its data. */
  readonly forget: () => Promise<void>;
  readonly nodes: readonly Node[];
}

export interface Node {
  readonly client: Redis;
  readonly port: number;
  readonly forget: () => Promise<void>;
}

const MASTERS = 3;

export async function withServers<T>(use: (servers: Servers) => Promise<T>): Promise<T> {
  const all = await Promise.all(Array.from({ length: 1 + MASTERS }, () => ForgetfulRedis.start()));
  const [first, ...nodes] = all as [ForgetfulRedis, ...ForgetfulRedis[]];
  const url = `redis://127.0.0.1:${first.port}`;
  const locks = createLocks(url);
  try {
    return await use({
      redis: first.client,
      url,
      port: first.port,
      locks,
      forget: () => first.forget(),
      nodes: nodes.map((node) => ({ client: node.client, port: node.port, forget: () => node.forget() })),
    });
  } finally {
    await locks.close();
    await Promise.all(all.map((server) => server.stop()));
  }
}

class ForgetfulRedis {
  readonly port: number;
  readonly client: Redis;
  #server: RunningServer;

  private constructor(port: number, server: RunningServer, client: Redis) {
    this.port = port;
    this.#server = server;
    this.client = client;
  }

  static async start(): Promise<ForgetfulRedis> {
    const port = await freePort();
    const server = await startRedis({ own: true, port });
    return new ForgetfulRedis(port, server, await connected(port));
  }

  /**
   * The client disconnects first. A node-redis 5 that reconnects while the server dies can be reset during
   * its handshake and then calls itself ready with a dead socket: its next command never ends.
   */
  async forget(): Promise<void> {
    this.client.destroy();
    this.#server.kill("SIGKILL");
    await this.#server.stop();
    this.#server = await startRedis({ own: true, port: this.port });
    await this.client.connect();
  }

  async stop(): Promise<void> {
    this.client.destroy();
    await this.#server.stop();
  }
}

export async function connected(port: number): Promise<Redis> {
  const client: Redis = createClient({ url: `redis://127.0.0.1:${port}` });
  // It connects again by itself; calls that fail reject.
  client.on("error", () => {});
  await client.connect();
  return client;
}
