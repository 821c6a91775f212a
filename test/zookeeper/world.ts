// A ZooKeeper for a test file, opened stores on it, proxies in front of it, and requests to give them.

import { Proxy } from "../../faults/proxy.ts";
import type { RunningServer } from "../../scripts/servers/process.ts";
import { startZooKeeper, type ZooKeeperOptions as ServerOptions } from "../../scripts/servers/zookeeper.ts";
import type { Io, OpenStore, Request } from "../../src/core/store.ts";
import { zookeeper, type ZooKeeperOptions } from "../../src/stores/zookeeper/index.ts";
import { nodeSystem } from "../../src/system/node.ts";

export const io: Io = {
  timeoutMs: 5_000,
  signal: new AbortController().signal,
  sleep: (ms) => new Promise((resolve) => void nodeSystem.after(ms, resolve)),
};

export const SESSION_MS = 2_000;

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

let requests = 0;

export function request(keys: string | readonly string[], wish: Partial<Request> = {}): Request {
  requests += 1;
  return {
    keys: typeof keys === "string" ? [keys] : keys,
    id: nodeSystem.randomId(),
    seq: 1,
    mode: "exclusive",
    permits: 1,
    limit: 1,
    ttlMs: 10_000,
    graceMs: 50,
    keepMs: 0,
    label: `r${requests}`,
    actor: "actor",
    queue: true,
    ...wish,
  };
}

export function item(one: Request, fences: readonly bigint[]): Parameters<OpenStore["renew"]>[0][number] {
  return { request: one, cookie: null, ttlMs: one.ttlMs, lastFences: fences, label: one.label };
}

/** Waits until `look` is true. */
export async function until(
  what: string,
  look: () => boolean | Promise<boolean>,
  ms = 10_000,
): Promise<void> {
  const endMs = nodeSystem.monoMs() + ms;
  while (!(await look())) {
    if (nodeSystem.monoMs() > endMs) throw new Error(`${what} did not happen within ${ms} ms`);
    await io.sleep(5);
  }
}

export async function fencesOf(store: OpenStore, one: Request): Promise<readonly bigint[]> {
  const answer = await store.attempt(one, io);
  if (!("granted" in answer)) throw new Error(`${one.label} was not granted: ${Object.keys(answer).join()}`);
  return answer.granted.fences;
}
