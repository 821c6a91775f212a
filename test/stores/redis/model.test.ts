// The same random histories for the scripts in a real Redis and for the plain rules of reference.ts: every
// answer and every notification must be equal, fences and times included. The scripts read the time from a
// list instead of the server's clock, so that the test can move it, and write their notifications to a list;
// nothing else in them is changed.

import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Redis } from "ioredis";
import { portOf } from "../../../src/stores/redis/client/connect.ts";
import type { RedisPort } from "../../../src/stores/redis/client/port.ts";
import { scripts } from "../../../src/stores/redis/scripts.generated.ts";
import { RedisOpenStore } from "../../../src/stores/redis/store.ts";
import { nodeSystem } from "../../../src/system/node.ts";
import { type Op, ops, several, wish } from "../../support/histories.ts";
import { runs } from "../../support/histories-count.ts";
import { RedisWorld } from "./fixture.ts";
import { RedisPair, type RedisSide, START_US } from "./pair.ts";

const HISTORIES = runs(50);
const CLOCK = "redis.call('LRANGE', 'clock', '0', '1')";

let world: RedisWorld;
let client: Redis;

beforeAll(async () => {
  world = await RedisWorld.start();
  client = new Redis(world.url);
});

afterAll(async () => {
  client?.disconnect();
  await world?.stop();
});

const bent = new Map(
  Object.values(scripts).map(({ sha, text }) => [
    sha,
    text
      .replaceAll("call('TIME')", CLOCK)
      .replaceAll(/call\('PUBLISH', [^,]+, /g, "call('RPUSH', 'pushed', "),
  ]),
);

function bend(port: RedisPort): RedisPort {
  return {
    keyPrefix: "",
    send: ([command, ...rest], call) => {
      if (command === "TIME") return port.send(["LRANGE", "clock", "0", "1"], call);
      const [script, ...words] = rest;
      if (command !== "EVALSHA") return port.send([command as string, ...rest], call);
      const text = bent.get(script as string);
      if (text === undefined) return Promise.reject(new Error("NOSCRIPT"));
      return port.send(["EVAL", text, ...words], call);
    },
    subscribe: () => Promise.resolve(() => Promise.resolve()),
    close: () => port.close(),
  };
}

const side: RedisSide = {
  async setClock(us) {
    const time = [String(Math.floor(us / 1_000_000)), String(us % 1_000_000)];
    await client
      .multi()
      .del("clock", "pushed")
      .rpush("clock", ...time)
      .exec();
  },
  pushed: () => client.lrange("pushed", 0, -1),
  hasPlace: async (namespace, key, id) => (await client.hexists(`${namespace}:{${key}}`, `beat:${id}`)) === 1,
};

let histories = 0;

async function compare(history: readonly Op[]): Promise<void> {
  histories += 1;
  const namespace = `m${histories}`;
  const env = { namespace, system: nodeSystem, allow: [] };
  await client.del("clock", "pushed");
  await client.rpush("clock", String(START_US / 1_000_000), "0");
  const open = (): Promise<RedisOpenStore> =>
    RedisOpenStore.open(() => bend(portOf(client, nodeSystem)), env);
  const opened = [await open(), await open()];
  try {
    const pair = new RedisPair(side, opened, namespace);
    for (const one of history) {
      const { ours, rules } = await pair.play(one);
      expect(ours).toEqual(rules);
    }
  } finally {
    await Promise.all(opened.map((store) => store.close()));
  }
}

describe("the scripts", () => {
  it(
    "give the answers of the plain rules, for any history (P1, P3, P5, P8, P9, P12)",
    async () => {
      await fc.assert(fc.asyncProperty(ops(several, wish), compare), HISTORIES);
    },
    120_000 + HISTORIES.numRuns * 500,
  );
});
