// A Redis of its own for a test file, opened stores on it, and requests to give them.

import type { RunningServer } from "../../scripts/servers/process.ts";
import { type RedisOptions as ServerOptions, startRedis } from "../../scripts/servers/redis.ts";
import type { Io, OpenStore, Request } from "../../src/core/store.ts";
import { redis, type RedisOptions } from "../../src/stores/redis/index.ts";
import { nodeSystem } from "../../src/system/node.ts";
import { type Reply, Resp } from "../servers/resp.ts";

export const io: Io = {
  timeoutMs: 5_000,
  signal: new AbortController().signal,
  sleep: (ms) => new Promise((resolve) => void nodeSystem.after(ms, resolve)),
};

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

/** Waits until `look` is true. */
export async function until(what: string, look: () => boolean | Promise<boolean>, ms = 5_000): Promise<void> {
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
