// The same random histories for the scripts in a real Redis and for the rules of the ledger: every answer and every push must be
// equal, fences and times included. The scripts read the time from a list instead of the server's clock, so that it can be
// moved by hand, and write their pushes to a list; nothing else in them is changed. The same for transactions, with
// scripts on the other side of the same keys.

import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Redis } from "ioredis";
import { portOf } from "../../../src/stores/redis/clients.ts";
import type { RedisPort } from "../../../src/stores/redis/port.ts";
import { scripts } from "../../../src/stores/redis/scripts.generated.ts";
import { RedisOpenStore } from "../../../src/stores/redis/store.ts";
import { nodeSystem } from "../../../src/system/node.ts";
import { key, locks, type Op, ops, Pair, several, type Side, wish } from "../../support/histories.ts";
import { runs } from "../../support/histories-count.ts";
import { RedisWorld } from "./fixture.ts";

const HISTORIES = runs(120);

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
      .replaceAll("redis.call('TIME')", "redis.call('LRANGE', 'clock', '0', '1')")
      .replaceAll(/redis\.call\('PUBLISH', [^,]+, (.*?)\) end/g, "redis.call('RPUSH', 'pushed', $1) end"),
  ]),
);

const CLOCK = ["LRANGE", "clock", "0", "1"];

function bend(port: RedisPort): RedisPort {
  return {
    keyPrefix: "",
    send: ([command, script, ...rest], patience) => {
      if (command !== "EVALSHA")
        return port.send(
          [command, script, ...rest].filter((word) => word !== undefined),
          patience,
        );
      const text = bent.get(script as string);
      if (text === undefined) return Promise.reject(new Error("NOSCRIPT"));
      return port.send(["EVAL", text, ...rest], patience);
    },
    session: async (name) => {
      const session = await (port.session as NonNullable<RedisPort["session"]>).call(port, name);
      return {
        get open() {
          return session.open;
        },
        send: (words) => {
          if (words[0] === "TIME") return session.send(CLOCK);
          return session.send(words[0] === "PUBLISH" ? ["RPUSH", "pushed", words[2] as string] : words);
        },
        close: () => session.close(),
      };
    },
    subscribe: () => Promise.resolve(() => Promise.resolve()),
    close: () => port.close(),
  };
}

const side: Side = {
  async setClock(us) {
    await client
      .multi()
      .del("clock", "pushed")
      .rpush("clock", String(Math.floor(us / 1_000_000)), String(us % 1_000_000))
      .exec();
  },
  pushed: () => client.lrange("pushed", 0, -1),
};

let histories = 0;

/** Which way each of the two processes has. */
async function compare(history: readonly Op[], ways: readonly [boolean, boolean]): Promise<void> {
  histories += 1;
  const env = { namespace: `m${histories}`, system: nodeSystem, allow: [] };
  await client.del("clock", "pushed");
  const opened = await Promise.all(
    ways.map((way) =>
      RedisOpenStore.open(() => bend(portOf(client, nodeSystem)), env, {
        topology: "node",
        replicas: 0,
        scripts: way,
      }),
    ),
  );
  try {
    const pair = new Pair(side, opened);
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
    "give the answers of the ledger, for any history of requests, releases, revocations and pauses (P1, P3, P5, P8, P9, P12)",
    async () => {
      await fc.assert(
        fc.asyncProperty(ops(several, wish), (history) => compare(history, [true, true])),
        HISTORIES,
      );
    },
    120_000 + HISTORIES.numRuns * 500,
  );
});

describe("transactions", () => {
  it.each([
    ["alone", [false, false]],
    ["beside scripts", [true, false]],
    ["beside scripts, the other way round", [false, true]],
  ] as const)(
    "give the answers of the ledger, %s (P1, P3, P5, P8, P12)",
    async (_name, ways) => {
      await fc.assert(
        fc.asyncProperty(
          ops(
            key.map((one) => [one]),
            locks,
          ),
          (history) => compare(history, ways),
        ),
        { ...HISTORIES, numRuns: Math.ceil(HISTORIES.numRuns / 3) },
      );
    },
    120_000 + HISTORIES.numRuns * 500,
  );
});
