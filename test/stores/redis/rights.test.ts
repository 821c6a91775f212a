// The Redis users of docs/operations/security.md can lock, and with one right less they cannot, or are told what they do without.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createLocks } from "../../../src/index.ts";
import { redis } from "../../../src/stores/redis/index.ts";
import { answered, RedisWorld } from "./fixture.ts";
import { exercise, type Exercised } from "../../security/exercise.ts";
import { commands, recipe } from "../../security/recipes.ts";

/** Enough for a heartbeat, and for a right that is missing to be told. */
const SHORT_MS = 2_000;
const AT_ONCE = 12;
const LOGIN = "://locks:secret@";
let world: RedisWorld;

beforeAll(async () => {
  world = await RedisWorld.start();
});

afterAll(() => world?.stop());

async function apply(name: string): Promise<void> {
  for (const words of commands(recipe("redis", name))) await world.ask(...words);
}

/** The same user under another name, with one word of its recipe less. */
async function without(name: string, right: string): Promise<string> {
  const [words = []] = commands(recipe("redis", name));
  const user = `no${right.replaceAll(/\W/g, "-")}-${name}`;
  await world.ask(...words.filter((word) => word !== right).map((word) => (word === "locks" ? user : word)));
  return world.url.replace("://", `://${user}:secret@`);
}

/** What may be missing without taking the locks away, and what `check` says then. */
const DISPENSABLE: Readonly<Record<string, string>> = {
  "+subscribe": "no-push",
  "+info": "settings-unknown",
};

/** Needed only to release a key for which a process with scripts waits. */
const BESIDE_SCRIPTS = "+hdel";

describe.each(["scripts", "transactions"] as const)("a user for %s", (kind) => {
  const scripts = kind === "scripts";
  const store = (url: string, driver: "redis" | "ioredis" = "redis"): ReturnType<typeof redis> =>
    redis({ url, driver, scripts });

  it.each(["redis", "ioredis"] as const)("can do everything, with %s", async (driver) => {
    await apply(kind);
    const { failed, findings } = await exercise(store(world.url.replace("://", LOGIN), driver));
    expect(failed).toEqual([]);
    expect(findings).not.toContain("no-push");
    expect(findings).not.toContain("settings-unknown");
  });

  it("cannot do without any of its rights", async () => {
    const [words = []] = commands(recipe("redis", kind));
    const rights = words.filter((word) => /^[+&~]/.test(word) && (scripts || word !== BESIDE_SCRIPTS));
    const users: [string, string][] = [];
    for (const right of rights) users.push([right, await without(kind, right)]);
    const results: ({ readonly right: string } & Exercised)[] = [];
    while (users.length > 0) {
      // A few at a time: each of them opens several connections.
      const some = users.splice(0, AT_ONCE);
      const done = some.map(async ([right, url]) => ({
        right,
        ...(await exercise(store(url), {}, SHORT_MS)),
      }));
      results.push(...(await Promise.all(done)));
    }
    for (const { right, failed, findings } of results) {
      const finding = DISPENSABLE[right];
      // It is told by name what is missing, at once: not after a minute of trying (P17).
      if (finding === undefined)
        expect(failed.join("\n"), `without ${right}`).toMatch(/UNAVAILABLE.*it needs.*\+get/);
      else expect([failed, findings.includes(finding)], `without ${right}`).toEqual([[], true]);
    }
  });

  it("cannot touch other names, neither by the product nor past it", async () => {
    await apply(kind);
    const url = world.url.replace("://", LOGIN);
    const elsewhere = createLocks(store(url), { namespace: "other" });
    await expect(elsewhere.acquire("k", { wait: "1m" })).rejects.toMatchObject({
      code: "ERR_STORE_UNAVAILABLE",
      retryable: false,
    });
    await elsewhere.close();
    const dry = (...words: string[]): Promise<unknown> => world.ask("ACL", "DRYRUN", "locks", ...words);
    expect(await dry("HGETALL", "holdfast:{k}")).toBe("OK");
    for (const words of [
      ["GET", "orders"],
      ["SET", "orders", "1"],
      ["FLUSHALL"],
      ["CONFIG", "GET", "*"],
      ["RENAME", "holdfast:{k}", "holdfast:{l}"],
    ])
      expect(await dry(...words), words.join(" ")).not.toBe("OK");
  });
});

it("with replicas a user needs two rights more", async () => {
  await apply("scripts");
  const url = world.url.replace("://", LOGIN);
  const locks = createLocks(redis({ url, replicas: 1 }));
  await expect(answered(() => locks.tryAcquire("k"))).rejects.toMatchObject({
    retryable: false,
    message: expect.stringContaining("+wait +role") as string,
  });
  await locks.close();
  await apply("replicas");
  const again = createLocks(redis({ url, replicas: 1 }));
  // It may ask now, and there is no replica.
  await expect(again.acquire("k", { wait: 5_000 })).rejects.toThrow(/0 of the 1 replicas/);
  await again.close();
});

it("the user of a redlock can do everything", async () => {
  const more = await Promise.all([RedisWorld.start(), RedisWorld.start()]);
  const three = [world, ...more];
  try {
    for (const one of three)
      for (const words of commands(recipe("redis", "redlock"))) await one.ask(...words);
    const nodes = three.map(({ server }) => `127.0.0.1:${server.port}`).join(",");
    const { failed } = await exercise(`redlock://locks:secret@${nodes}?nodeTimeout=20s`, {
      allow: ["fresh-nodes"],
    });
    expect(failed).toEqual([]);
  } finally {
    await Promise.all(more.map((one) => one.stop()));
  }
});
