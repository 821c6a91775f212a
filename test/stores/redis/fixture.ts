// A Redis of its own for a test file, opened stores on it, and requests to give them.

import type { RunningServer } from "../../../scripts/servers/process.ts";
import { type RedisOptions as ServerOptions, startRedis } from "../../../scripts/servers/redis.ts";
import type { OpenStore } from "../../../src/core/store.ts";
import { redis, type RedisOptions } from "../../../src/stores/redis/index.ts";
import { nodeSystem } from "../../../src/system/node.ts";
import { type Reply, Resp } from "./resp.ts";

export { answered, fencesOf, io, request, until } from "../../support/store-calls.ts";

export class RedisWorld {
  readonly server: RunningServer;
  readonly #asking: Resp;
  readonly #opened: OpenStore[] = [];

  private constructor(server: RunningServer, asking: Resp) {
    this.server = server;
    this.#asking = asking;
  }

  static async start(options: ServerOptions = {}): Promise<RedisWorld> {
    const server = await startRedis({ own: true, ...options });
    return new RedisWorld(server, await Resp.open(server.port));
  }

  get url(): string {
    return this.server.url;
  }

  /** Asks the server itself, past the product. */
  ask(...words: string[]): Promise<Reply> {
    return this.#asking.ask(...words);
  }

  async open(options: RedisOptions = { url: this.url }, namespace = "t"): Promise<OpenStore> {
    const store = await redis(options).open({ namespace, system: nodeSystem, allow: [] });
    this.#opened.push(store);
    return store;
  }

  async stop(): Promise<void> {
    await Promise.all(this.#opened.map((store) => store.close()));
    this.#asking.close();
    await this.server.stop();
  }
}
