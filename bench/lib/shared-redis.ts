// Many opened Redis stores over a few connections, as many processes would open them: each store has its own
// place in the queues and its own channel, but they share the sockets of this process.

import { Redis } from "ioredis";
import type { Store } from "../../src/core/store.ts";
import type { RedisPort, Reply } from "../../src/stores/redis/client/port.ts";
import { redisGuarantees } from "../../src/stores/redis/index.ts";
import { RedisOpenStore } from "../../src/stores/redis/store.ts";

export class SharedRedis {
  readonly #senders: readonly Redis[];
  readonly #listener: Redis;
  readonly #hearers = new Map<string, (message: string) => void>();
  #opened = 0;

  constructor(url: string, connections: number) {
    this.#senders = Array.from({ length: connections }, () => new Redis(url));
    this.#listener = new Redis(url);
    this.#listener.on("message", (channel: string, message: string) => this.#hearers.get(channel)?.(message));
  }

  /** A store of its own at every call. */
  store(): Store {
    return {
      name: "redis",
      guarantees: redisGuarantees,
      open: (env) => RedisOpenStore.open(() => this.#port(), env),
    };
  }

  close(): void {
    for (const client of [...this.#senders, this.#listener]) client.disconnect();
  }

  #port(): RedisPort {
    this.#opened += 1;
    const client = this.#senders[this.#opened % this.#senders.length] as Redis;
    return {
      keyPrefix: "",
      send: ([command = "", ...words]) => client.call(command, ...words) as Promise<Reply>,
      subscribe: async (channel, hear) => {
        this.#hearers.set(channel, hear);
        await this.#listener.subscribe(channel);
        return async () => {
          this.#hearers.delete(channel);
          await this.#listener.unsubscribe(channel);
        };
      },
      close: () => Promise.resolve(),
    };
  }
}
