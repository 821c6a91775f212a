// Passwords and ids stay inside: not in messages, not in what is printed of an error with all of its causes, not in events, not on
// the tracing channels, not in what the command says. An id is 128 bits in hex, and whoever has it can release the lock.

import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { inspect } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startMariadb } from "../../scripts/servers/mariadb.ts";
import type { RunningServer } from "../../scripts/servers/process.ts";
import { createLocks, InvalidArgumentError, LockError, type Store } from "../../src/index.ts";
import { redis } from "../../src/stores/redis/index.ts";
import { Sandbox } from "../cli/fixture.ts";
import { RedisWorld } from "../stores/redis/fixture.ts";

const SECRET = "hunter2hunter2";
const ID = /\b[0-9a-f]{32}\b/;

/** Everything that anybody could print of it. */
function printed(value: unknown): string {
  const stack = value instanceof Error ? value.stack : "";
  const plain = (_name: string, one: unknown): unknown => (typeof one === "bigint" ? String(one) : one);
  return `${inspect(value, { depth: Number.POSITIVE_INFINITY })} ${JSON.stringify(value, plain)} ${stack}`;
}

async function failure(store: string | Store): Promise<unknown> {
  const locks = createLocks(store);
  try {
    return await locks.acquire("k", { wait: 200 }).then(
      () => null,
      (error: unknown) => error,
    );
  } finally {
    await locks.close();
  }
}

let world: RedisWorld;
let mariadb: RunningServer;

beforeAll(async () => {
  [world, mariadb] = await Promise.all([RedisWorld.start(), startMariadb({ own: true })]);
  await world.ask("ACL", "SETUSER", "known", "on", ">another", "~holdfast:*", "+@all");
  await world.ask("ACL", "SETUSER", "poor", "on", `>${SECRET}`, "~other:*", "&*", "+@all");
});

afterAll(async () => {
  await Promise.all([world?.stop(), mariadb?.stop()]);
});

describe("an error", () => {
  const hosts = (): string => `127.0.0.1:${world.server.port}`;

  it.each(["redis", "ioredis"] as const)(
    "of Redis by %s shows neither password nor id, nor do its causes",
    async (driver) => {
      const urls = [
        `redis://known:${SECRET}@${hosts()}`,
        `redis://poor:${SECRET}@${hosts()}`,
        `redis://known:${SECRET}@127.0.0.1:1`,
        `redis+cluster://known:${SECRET}@${hosts()}`,
        `redis+sentinel://known:${SECRET}@${hosts()}/main?sentinelPassword=${SECRET}`,
      ];
      await world.ask("SET", "holdfast:{k}", "foreign");
      const stores = [...urls, world.url].flatMap((url) => [
        redis({ url, driver }),
        redis({ url, driver, scripts: false }),
      ]);
      const errors = await Promise.all(stores.map(failure));
      await world.ask("DEL", "holdfast:{k}");
      for (const error of errors) {
        expect(LockError.is(error), printed(error)).toBe(true);
        expect(printed(error)).not.toContain(SECRET);
        expect(printed(error)).not.toMatch(ID);
      }
    },
  );

  it("of the other stores shows no password", async () => {
    const urls = [
      `redlock://known:${SECRET}@${hosts()},127.0.0.1:1,127.0.0.1:2`,
      mariadb.url.replace(/\/\/.*@/, `//app:${SECRET}@`),
      `mysql://app:${SECRET}@127.0.0.1:1/x`,
      `postgres://app:${SECRET}@127.0.0.1:1/x`,
      `etcd://app:${SECRET}@127.0.0.1:1`,
      `zookeeper://app:${SECRET}@127.0.0.1:1`,
    ];
    for (const error of await Promise.all(urls.map(failure))) {
      expect(LockError.is(error), printed(error)).toBe(true);
      expect(printed(error)).not.toContain(SECRET);
    }
  });

  it("about a URL that is wrong shows nothing of it", () => {
    const schemes = [
      "redis",
      "rediss",
      "redis+sentinel",
      "redis+cluster",
      "redlock",
      "mysql",
      "mariadb",
      "postgres",
      "etcd",
      "zookeeper",
    ];
    const rests = [
      `:app:${SECRET}`,
      `://app:${SECRET}%zz@h:1/x?a=b`,
      `://app:${SECRET}@`,
      `://app:${SECRET}@h:99999999/`,
      `://app:${SECRET}@[::1/`,
      `://app:${SECRET}@h/x?replicas=no&mode=no&order=no&table=A`,
    ];
    let refused = 0;
    for (const url of schemes.flatMap((scheme) => rests.map((rest) => scheme + rest))) {
      try {
        createLocks(url);
      } catch (error) {
        refused += 1;
        expect(error, `${url}: ${printed(error)}`).toBeInstanceOf(InvalidArgumentError);
        expect(printed(error)).not.toContain(SECRET);
      }
    }
    expect(refused).toBeGreaterThan(40);
  });
});

describe("what happens to a lock", () => {
  const EVENTS = [
    "waiting",
    "acquired",
    "renewed",
    "endangered",
    "lost",
    "released",
    "revoked",
    "deadlock",
    "quarantine",
  ] as const;
  const TRACED = ["acquire", "release", "renew"].flatMap((name) =>
    ["start", "end", "asyncStart", "asyncEnd", "error"].map((step) => `tracing:holdfast:${name}:${step}`),
  );
  const CHANNELS = ["contended", "lost", "revoked", "deadlock"]
    .map((name) => `holdfast:${name}`)
    .concat(TRACED);

  it("is told without ids, by events, channels, leases, listings and errors", async () => {
    const said: unknown[] = [];
    const hear = (message: unknown): void => void said.push(message);
    for (const channel of CHANNELS) subscribe(channel, hear);
    const [one, two] = [createLocks(world.url), createLocks(world.url)];
    for (const locks of [one, two]) for (const name of EVENTS) locks.on(name, hear);
    const lease = await one.acquire("k", { ttl: 1_000 });
    said.push(lease, lease.toJSON(), await one.tryAcquire("k"), await one.inspect("k"), one, two);
    said.push(await two.acquire("k", { wait: 100 }).catch((error: unknown) => error));
    const next = two.acquire("k", { wait: 100_000 });
    said.push(await one.check());
    for await (const info of one.list()) said.push(info);
    await one.revoke("k", { reason: "test" });
    said.push(lease.signal.reason, await next);
    await two.close();
    said.push(
      await next.catch((error: unknown) => error),
      await two.acquire("k").catch((error: unknown) => error),
    );
    await one.close();
    for (const channel of CHANNELS) unsubscribe(channel, hear);
    expect(said.length).toBeGreaterThan(12);
    for (const thing of said) expect(printed(thing)).not.toMatch(ID);
  });

  it("is told by the command without ids, and a failed login without its password", async () => {
    const box = new Sandbox();
    try {
      const env = { HOLDFAST_STORE: world.url };
      const run = box.start(["run", "k", "--", "sleep", "5"], env);
      await expect.poll(async () => (await box.run(["ls"], env)).stdout, { timeout: 100_000 }).toContain("k");
      const outputs = [await box.run(["inspect", "k"], env), await box.run(["ls", "--json"], env)];
      run.kill("SIGTERM");
      outputs.push(await run.ended);
      const wrong = { HOLDFAST_STORE: world.url.replace("://", `://known:${SECRET}@`) };
      outputs.push(await box.run(["run", "k", "--", "true"], wrong), await box.run(["doctor"], wrong));
      for (const { stdout, stderr } of outputs) {
        expect(stdout + stderr).not.toMatch(ID);
        expect(stdout + stderr).not.toContain(SECRET);
      }
      expect(outputs.at(-1)?.stdout).toMatch(/password/);
    } finally {
      await box.close();
    }
  });
});
