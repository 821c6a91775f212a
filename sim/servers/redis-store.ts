// The real redis store over a simulated Redis in the same process, without a network: for the conformance suite. Stores under one
// clock share a server that runs by it, so that whoever moves that clock moves the server's too.

import type { Guarantees, Store } from "../../src/core/store.ts";
import type { System } from "../../src/core/system.ts";
import { redisGuarantees } from "../../src/stores/redis/guarantees.ts";
import type { RedisPort, Reply } from "../../src/stores/redis/client/port.ts";
import { RedisOpenStore } from "../../src/stores/redis/store.ts";
import { fromBytes, replyOf, toBytes } from "./bytes.ts";
import { RedisServer } from "./redis.ts";

/** It has no server that could be restarted, and its clock is this machine's. */
export const twinGuarantees: Guarantees = { ...redisGuarantees, clock: "machine", scope: "process" };

const START_MS = 1_700_000_000_000;

export class RedisTwins {
  readonly #twins = new Map<System, Twin>();

  store(): Store {
    return {
      name: "simulated redis",
      guarantees: twinGuarantees,
      open: (env) => RedisOpenStore.open(() => this.#of(env.system).port(), env),
    };
  }

  /** How many keys there are in a namespace. */
  footprint(namespace: string): number {
    return [...this.#twins.values()]
      .flatMap(({ server }) => [...server.entries()])
      .filter(([name]) => name.startsWith(`${namespace}:`)).length;
  }

  #of(system: System): Twin {
    const twin = this.#twins.get(system) ?? new Twin(system);
    this.#twins.set(system, twin);
    return twin;
  }
}

class Twin {
  readonly server: RedisServer;
  readonly #hears = new Map<string, Set<(message: string) => void>>();

  constructor(system: System) {
    this.server = new RedisServer({
      wallUs: () => Math.floor((START_MS + system.monoMs()) * 1_000),
      runId: () => "0".repeat(40),
      publish: (channel, message) => {
        const hears = this.#hears.get(channel) ?? new Set();
        for (const hear of hears) setImmediate(hear, fromBytes(message));
        return hears.size;
      },
      durable: true,
    });
  }

  port(): RedisPort {
    return {
      keyPrefix: "",
      send: async (words): Promise<Reply> => {
        await Promise.resolve();
        return replyOf(this.server.run(words.map(toBytes)));
      },
      subscribe: (channel, hear) => {
        const all = this.#hears.get(channel) ?? new Set();
        this.#hears.set(channel, all.add(hear));
        return Promise.resolve(() => {
          all.delete(hear);
          return Promise.resolve();
        });
      },
      close: () => Promise.resolve(),
    };
  }
}
