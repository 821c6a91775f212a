// The simulated Redis runs the scripts as they are: the same random histories that a real Redis is held to
// (test/stores/redis/model.test.ts) must give the same answers and notifications here.

import fc from "fast-check";
import { expect, it } from "vitest";
import { fromBytes, replyOf, toBytes } from "../../sim/servers/bytes.ts";
import { RedisServer } from "../../sim/servers/redis.ts";
import type { RedisPort } from "../../src/stores/redis/client/port.ts";
import { RedisOpenStore } from "../../src/stores/redis/store.ts";
import { nodeSystem } from "../../src/system/node.ts";
import { RedisPair, type RedisSide } from "../stores/redis/pair.ts";
import { type Op, ops, several, wish } from "../support/histories.ts";
import { runs } from "../support/histories-count.ts";

const HISTORIES = runs(50);

class Simulated implements RedisSide {
  #nowUs = 1_800_000_000_000_000;
  #pushed: string[] = [];
  readonly #server = new RedisServer({
    wallUs: () => this.#nowUs,
    runId: () => "0".repeat(40),
    publish: (_channel, message) => this.#pushed.push(fromBytes(message)),
    durable: true,
  });

  setClock(us: number): Promise<void> {
    this.#nowUs = us;
    this.#pushed = [];
    return Promise.resolve();
  }

  pushed(): Promise<readonly string[]> {
    return Promise.resolve(this.#pushed);
  }

  hasPlace(namespace: string, key: string, id: string): Promise<boolean> {
    const place = this.#server.run(["HMGET", `${namespace}:{${key}}`, `beat:${id}`]);
    return Promise.resolve(place?.toString() !== "");
  }

  port(): RedisPort {
    return {
      keyPrefix: "",
      send: async (words) => {
        await Promise.resolve();
        return replyOf(this.#server.run(words.map(toBytes)));
      },
      subscribe: () => Promise.resolve(() => Promise.resolve()),
      close: () => Promise.resolve(),
    };
  }
}

async function compare(history: readonly Op[]): Promise<void> {
  const side = new Simulated();
  const env = { namespace: "m", system: nodeSystem, allow: [] };
  const opened = await Promise.all([1, 2].map(() => RedisOpenStore.open(() => side.port(), env)));
  const pair = new RedisPair(side, opened, "m");
  for (const one of history) {
    const { ours, rules } = await pair.play(one);
    expect(ours).toEqual(rules);
  }
}

it(
  "gives the answers of the plain rules, for any history (P1, P3, P5, P8, P9, P12)",
  async () => {
    await expect(
      fc.assert(fc.asyncProperty(ops(several, wish), compare), HISTORIES),
    ).resolves.toBeUndefined();
  },
  120_000 + HISTORIES.numRuns * 100,
);
