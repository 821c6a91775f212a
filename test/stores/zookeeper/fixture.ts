// A ZooKeeper for a test file, opened stores on it, proxies in front of it, and requests to give them.

import { Proxy } from "../../../faults/proxy.ts";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import {
  startZooKeeper,
  type ZooKeeperOptions as ServerOptions,
} from "../../../scripts/servers/zookeeper.ts";
import type { OpenStore, Request } from "../../../src/core/store.ts";
import { zookeeper, type ZooKeeperOptions } from "../../../src/stores/zookeeper/index.ts";
import { nodeSystem } from "../../../src/system/node.ts";

export { fencesOf, io, request, until } from "../../support/store-calls.ts";

export const SESSION_MS = 4_000;

export class ZooKeeperWorld {
  readonly server: RunningServer;
  readonly #opened: OpenStore[] = [];
  readonly #proxies: Proxy[] = [];

  private constructor(server: RunningServer) {
    this.server = server;
  }

  static async start(options: ServerOptions = {}): Promise<ZooKeeperWorld> {
    return new ZooKeeperWorld(await startZooKeeper({ own: true, ...options }));
  }

  get url(): string {
    return this.server.url;
  }

  /** One that misbehaves only where `only` was said, if it is given. */
  async proxy(only?: RegExp): Promise<Proxy> {
    const proxy = await Proxy.listen({ host: "127.0.0.1", port: this.server.port }, only);
    this.#proxies.push(proxy);
    return proxy;
  }

  async open(options: Partial<ZooKeeperOptions> = {}, namespace = "t"): Promise<OpenStore> {
    const servers = [`127.0.0.1:${this.server.port}`];
    const store = await zookeeper({ servers, sessionTimeout: SESSION_MS, ...options }).open({
      namespace,
      system: nodeSystem,
      allow: [],
    });
    this.#opened.push(store);
    return store;
  }

  /** Reached through these alone. */
  through(...proxies: readonly Proxy[]): Promise<OpenStore> {
    return this.open({ servers: proxies.map(({ port }) => `127.0.0.1:${port}`) });
  }

  async stop(): Promise<void> {
    for (const proxy of this.#proxies) proxy.heal();
    await Promise.all(this.#opened.map((store) => store.close()));
    await Promise.all(this.#proxies.map((proxy) => proxy.close()));
    await this.server.stop();
  }
}

export function item(one: Request, fences: readonly bigint[]): Parameters<OpenStore["renew"]>[0][number] {
  return { request: one, cookie: null, ttlMs: one.ttlMs, lastFences: fences, label: one.label };
}
