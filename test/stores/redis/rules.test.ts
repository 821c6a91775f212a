// What the scripts promise beyond the conformance suite: late messages, records of other versions, flushed
// scripts, full memory, keys that end by themselves.

import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { OpenStore } from "../../../src/core/store.ts";
import type { Redis } from "ioredis";
import { redis } from "../../../src/stores/redis/index.ts";
import { nodeSystem } from "../../../src/system/node.ts";
import { fencesOf, io, RedisWorld, request, until } from "./fixture.ts";

const HOUR_MS = 3_600_000;

let world: RedisWorld;
let store: OpenStore;

beforeAll(async () => {
  world = await RedisWorld.start();
});

afterAll(() => world?.stop());

beforeEach(async () => {
  await world.ask("FLUSHALL");
  store = await world.open();
});

/** A client that keeps back what it is told to, so that the network can deliver it late. */
async function holdingBack(): Promise<{
  store: OpenStore;
  /** The next script is not sent, and nobody answers. */
  keep(): void;
  /** Delivers what was kept back. */
  deliver(): Promise<unknown>;
}> {
  const { Redis: Client } = await import("ioredis");
  const client: Redis = new Client(world.url);
  let isKeeping = false;
  let kept: [string, ...string[]] | null = null;
  const shown = new Proxy(client, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (name !== "call") return typeof value === "function" ? (value.bind(target) as unknown) : value;
      return (command: string, ...args: string[]) => {
        if (command !== "EVALSHA" || !isKeeping) return client.call(command, ...args);
        isKeeping = false;
        kept = [command, ...args];
        return new Promise(() => {});
      };
    },
  });
  const opened = await world.open({ client: shown });
  const close = opened.close.bind(opened);
  opened.close = async () => {
    await close();
    client.disconnect();
  };
  return {
    store: opened,
    keep: () => (isKeeping = true),
    deliver: () => client.call(...(kept as [string, ...string[]])),
  };
}

const keys = async (): Promise<string[]> => ((await world.ask("KEYS", "*")) as string[]).toSorted();

describe("an attempt that arrives late (P8)", () => {
  const brief = { ...io, timeoutMs: 300 };

  it.each([
    ["a plain lock", {}],
    ["a read lock", { mode: "shared" as const }],
  ])("of %s changes nothing after its id was abandoned, and leaves nothing behind", async (_kind, wish) => {
    const { store: own, keep, deliver } = await holdingBack();
    await own.release(...(await released(own, "late", wish)));
    keep();
    const late = request("late", wish);
    void own.attempt(late, brief);
    await io.sleep(20);
    await own.abandon([late], io);
    expect(((await deliver()) as unknown[]).flat()).toContain("ended");
    expect(await own.inspect("late", io)).toBe(null);
    expect(await own.attempt(request("late"), io)).toHaveProperty("granted");
    await until("the end of what was remembered", async () => (await keys()).length === 2);
  });

  it("changes nothing after its id was granted by a later attempt and released", async () => {
    const { store: own, keep, deliver } = await holdingBack();
    await own.release(...(await released(own, "late")));
    const late = request("late");
    keep();
    void own.attempt(late, brief);
    await io.sleep(20);
    const lastFences = await fencesOf(own, { ...late, seq: 2 });
    expect(await own.release(late, null, { lastFences }, io)).toBe("released");
    expect(((await deliver()) as unknown[]).flat()).toContain("ended");
    expect(await own.inspect("late", io)).toBe(null);
  });

  it.each([
    ["a plain lock", {}, /l$/],
    ["a semaphore", { limit: 2 }, /^late/],
  ])("of %s changes nothing when its own time is over", async (_kind, wish, answer) => {
    const { store: own, keep, deliver } = await holdingBack();
    await own.release(...(await released(own, "late", wish)));
    keep();
    void own.attempt(request("late", wish), brief);
    await io.sleep(400);
    expect(String(await deliver())).toMatch(answer);
    expect(await own.inspect("late", io)).toBe(null);
  });

  it("is not sent at all once its id was abandoned", async () => {
    const late = request("late");
    const before = request("before");
    const first = store.attempt(before, io);
    // It waits for the end of this turn, because another attempt is under way.
    const attempt = store.attempt(late, io);
    const abandoned = store.abandon([late, before], io);
    expect(await attempt).toEqual({ ended: true });
    expect(await first).toHaveProperty("granted");
    await abandoned;
    expect(await store.inspect("late", io)).toBe(null);
    expect(await store.inspect("before", io)).toBe(null);
  });

  it("leaves no memory in the server when every attempt was answered (P21)", async () => {
    for (let turn = 0; turn < 20; turn += 1) await store.release(...(await released(store, "many")));
    expect(await keys()).toEqual(["t:clock"]);
  });
});

/** A lock that was taken, as its release wants it. */
async function released(
  own: OpenStore,
  key: string,
  wish: Parameters<typeof request>[1] = {},
): Promise<Parameters<OpenStore["release"]>> {
  const one = request(key, wish);
  return [one, null, { lastFences: await fencesOf(own, one) }, io];
}

describe("a server whose clock was set", () => {
  it("teaches its time with an answer, and the attempt is repeated within the call", async () => {
    const system = { ...nodeSystem, monoMs: () => nodeSystem.monoMs() - backMs };
    let backMs = 0;
    const own = await redis({ url: world.url }).open({ namespace: "t", system, allow: [] });
    await own.release(...(await released(own, "set")));
    // As if the server's clock had jumped an hour ahead.
    backMs = HOUR_MS;
    expect(await own.attempt(request("set"), io)).toHaveProperty("granted");
    expect(await own.attempt(request("set", { mode: "shared" }), io)).toHaveProperty("busy");
    await own.close();
  });
});

describe("records of version 0.2 (P22)", () => {
  const pad = (number: number, digits: number): string => String(Math.floor(number)).padStart(digits, "0");
  const nowUs = (): number => Date.now() * 1_000;
  const held = (endUs: number): string =>
    `hf2h${pad(nowUs(), 16)}${pad(10_000, 12)}${pad(nowUs(), 16)}${pad(nowUs(), 16)}${pad(endUs, 16)}` +
    `${"a".repeat(32)}${"b".repeat(16)}000003oldactor`;
  const pack = (ends: number): Promise<unknown> =>
    world.ask(
      "EVAL",
      "local holders = { { ends = tonumber(ARGV[1]) } } " +
        "return redis.call('SET', KEYS[1], 'hf2t' .. cmsgpack.pack({ last = 5, holders = holders }))",
      "1",
      "t:{old}",
      String(ends),
    );

  it("that are free are free, and their fence counts", async () => {
    const last = nowUs() + 60_000_000;
    await world.ask("SET", "t:{old}", `hf2f${pad(last, 16)}00`);
    expect(await store.inspect("old", io)).toBe(null);
    const [fence] = await fencesOf(store, request("old"));
    expect(Number(fence)).toBe(last + 1);
  });

  it("that are held are busy until their end, for every kind", async () => {
    for (const write of [
      (endUs: number) => world.ask("SET", "t:{old}", held(endUs)),
      (endUs: number) => pack(endUs / 1_000),
    ]) {
      await write(nowUs() + 3_000_000);
      const waiter = request("old");
      for (const one of [
        waiter,
        request("old", { mode: "shared" }),
        request("old", { limit: 2, queue: false }),
      ])
        expect(await store.attempt(one, io)).toHaveProperty("busy");
      expect((await store.inspect("old", io))?.holders).toHaveLength(1);
      let seq = 1;
      await until("the end of the old lease", async () => {
        const answer = await store.attempt({ ...waiter, seq: ++seq }, io);
        return "granted" in answer;
      });
      await store.abandon([waiter], io);
    }
  });

  it("of a version to come are busy, and left as they are", async () => {
    await world.ask("HSET", "t:{new}", "v", "4", "x", "y");
    expect(await store.attempt(request("new"), io)).toHaveProperty("busy");
    expect(await store.attempt(request("new", { limit: 3 }), io)).toHaveProperty("busy");
    expect(await world.ask("HGETALL", "t:{new}")).toEqual(["v", "4", "x", "y"]);
  });
});

describe("keys in Redis", () => {
  it("all end by themselves but the highest fence, and an idle key has none (P16, P21)", async () => {
    const a = request("idle", { ttlMs: 60_000 });
    const lastFences = await fencesOf(store, a);
    expect(Number(await world.ask("PTTL", "t:{idle}"))).toBeGreaterThan(60_000);
    const waiter = request("idle");
    await store.attempt(waiter, io);
    await store.release(a, null, { lastFences }, io);
    await fencesOf(store, request("kept", { keepMs: HOUR_MS }));
    await fencesOf(store, request("pool", { limit: 4 }));
    for (const name of (await keys()).filter((one) => one !== "t:clock")) {
      const left = Number(await world.ask("PTTL", name));
      expect(left, name).toBeGreaterThan(10_000);
      expect(left, name).toBeLessThan(HOUR_MS + 60_000);
    }
    expect(Number(await world.ask("PTTL", "t:{kept}"))).toBeGreaterThan(HOUR_MS);
    await store.abandon([waiter, request("never seen")], io);
    expect(await keys()).toEqual(["t:clock", "t:{kept}", "t:{pool}", "t:{pool}:e"]);
  });

  it("are exact: fences near 2^53 come back digit by digit (P3)", async () => {
    const script = "return string.format('%.0f', tonumber(ARGV[1]) + 1)";
    expect(await world.ask("EVAL", script, "0", "9007199254740990")).toBe("9007199254740991");
  });

  it("that somebody else wrote are refused, never taken for a free lock (P19)", async () => {
    await world.ask("SET", "t:{theirs}", "value");
    await world.ask("RPUSH", "t:{list}", "value");
    for (const key of ["theirs", "list"]) {
      await expect(store.attempt(request(key), io)).rejects.toMatchObject({
        code: "ERR_STORE_UNSAFE",
      });
    }
  });
});

describe("scripts that were flushed", () => {
  it("are sent again without anybody noticing", async () => {
    const a = request("flushed");
    const b = request("flushed");
    let notifications = 0;
    const lastFences = await fencesOf(store, a);
    await store.subscribe?.(b, () => (notifications += 1));
    await world.ask("SCRIPT", "FLUSH");
    expect(await store.attempt(b, io)).toHaveProperty("busy");
    await world.ask("SCRIPT", "FLUSH");
    const renewed = { state: "renewed", validMs: a.ttlMs };
    expect(await store.renew([item(a, lastFences)], io)).toMatchObject([renewed]);
    await world.ask("SCRIPT", "FLUSH");
    expect(await store.release(a, null, { lastFences }, io)).toBe("released");
    await until("the notification", () => notifications > 0);
  });
});

describe("when memory is full", () => {
  it("what is held can be renewed, passed on and released; a new lock is refused by name", async () => {
    const [a, b, c] = [request("full"), request("full"), request("other")];
    const lastFences = await fencesOf(store, a);
    const others = await fencesOf(store, c);
    await store.attempt(b, io);
    await world.ask("CONFIG", "SET", "maxmemory", "1");
    try {
      await expect(store.attempt(request("new"), io)).rejects.toMatchObject({
        code: "ERR_STORE_UNAVAILABLE",
        retryable: true,
        message: expect.stringContaining("memory is full") as string,
      });
      expect(await store.renew([item(a, lastFences), item(c, others)], io)).toMatchObject([
        { state: "renewed" },
        { state: "renewed" },
      ]);
      expect(await store.attempt({ ...b, seq: 2 }, io)).toHaveProperty("busy");
      expect(await store.release(a, null, { lastFences }, io)).toBe("released");
      expect(await store.release(c, null, { lastFences: others }, io)).toBe("released");
      expect(await store.attempt({ ...b, seq: 3 }, io)).toHaveProperty("granted");
      await store.abandon([b], io);
      expect(await store.inspect("full", io)).toBe(null);
    } finally {
      await world.ask("CONFIG", "SET", "maxmemory", "0");
    }
  });
});

describe("plain locks in one call", () => {
  const granted = (answer: unknown): { readonly fences: readonly bigint[] } =>
    (answer as { granted: { fences: readonly bigint[] } }).granted;

  /** What is asked for while another attempt is under way leaves together. */
  async function together<T>(ask: () => Promise<T>[]): Promise<T[]> {
    const first = request("first");
    const alone = store.attempt(first, io);
    const answers = Promise.all(ask());
    await alone;
    await store.abandon([first], io);
    return answers;
  }

  it("are granted what is free, and told of the rest by the rules", async () => {
    await store.attempt(request("taken"), io);
    const asked = ["a", "taken", "b", "a"].map((key) => request(key));
    const answers = await together(() => asked.map((one) => store.attempt(one, io)));
    expect(answers.map((answer) => Object.keys(answer)[0])).toEqual(["granted", "busy", "granted", "busy"]);
  });

  it("get a larger fence than the one that was used up to in the same call (P3)", async () => {
    const holder = request("a");
    const [first = 0n] = await fencesOf(store, holder);
    // A hand-off inside the process has used a number above the clock.
    const lastFences = [first + 5_000n];
    const [ended, next] = await together<unknown>(() => [
      store.release(holder, null, { lastFences }, io),
      store.attempt(request("a"), io),
    ]);
    expect(ended).toBe("released");
    expect(granted(next).fences[0]).toBeGreaterThan(first + 5_000n);
  });

  it("are released when memory is full, whatever else is asked for", async () => {
    const holder = request("a");
    const lastFences = await fencesOf(store, holder);
    await world.ask("CONFIG", "SET", "maxmemory", "1");
    try {
      const refused = store.attempt(request("x"), io);
      const more = store.attempt(request("y"), io);
      const freed = store.release(holder, null, { lastFences }, io);
      await expect(refused).rejects.toThrow("memory is full");
      await expect(more).rejects.toThrow("memory is full");
      expect(await freed).toBe("released");
    } finally {
      await world.ask("CONFIG", "SET", "maxmemory", "0");
    }
  });
});

describe("the record of a semaphore", () => {
  it("does not grow with refused tries while permits are held and waited for (P16)", async () => {
    const permit = (queue: boolean) => request("pool", { limit: 2, queue });
    const held = [permit(true), permit(true)];
    for (const one of held) expect(await store.attempt(one, io)).toHaveProperty("granted");
    const waiter = permit(true);
    expect(await store.attempt(waiter, io)).toHaveProperty("busy");
    const refuse = async (times: number): Promise<number> => {
      for (let n = 0; n < times; n += 1)
        expect(await store.attempt(permit(false), io)).toHaveProperty("busy");
      return Number(await world.ask("MEMORY", "USAGE", "t:{pool}"));
    };
    const before = await refuse(1);
    // On a slow machine the record keeps a few ids for some time. One per refused try would be 6,000 bytes.
    expect(await refuse(200)).toBeLessThan(before + 1_000);
    // Who holds and who waits is still known.
    expect(await store.attempt({ ...waiter, seq: 2 }, io)).toHaveProperty("busy");
    expect(await store.attempt({ ...(held[0] as typeof waiter), seq: 2 }, io)).toHaveProperty("granted");
    await store.abandon([held[1] as typeof waiter], io);
    expect(await store.attempt({ ...waiter, seq: 3 }, io)).toHaveProperty("granted");
  });
});

describe("the subscription", () => {
  it("comes back after its connection was lost, and the heartbeat is the net meanwhile (P11)", async () => {
    for (const driver of [undefined, "redis", "ioredis"] as const) {
      const own = await world.open({ url: world.url, driver });
      const [a, b] = [request(driver ?? "own"), request(driver ?? "own")];
      const lastFences = await fencesOf(store, a);
      let notifications = 0;
      await own.subscribe?.(b, () => (notifications += 1));
      await own.attempt(b, io);
      const listening = async (): Promise<number> =>
        ((await world.ask("PUBSUB", "CHANNELS", "t:push:*")) as string[]).length;
      const before = await listening();
      await world.ask("CLIENT", "KILL", "TYPE", "pubsub");
      await until("the new subscriptions", async () => (await listening()) === before);
      await own.attempt({ ...b, seq: 2 }, io);
      await store.release(a, null, { lastFences }, io);
      await until("the notification", () => notifications > 0);
      expect(await own.attempt({ ...b, seq: 3 }, io)).toHaveProperty("granted");
    }
  });
});

function item(one: ReturnType<typeof request>, lastFences: readonly bigint[]) {
  return {
    request: one,
    cookie: null,
    ttlMs: one.ttlMs,
    lastFences,
    label: one.label,
  };
}
