// Facts about Redis 7 that the product leans on, asked of a real server.

import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import { startRedis } from "../../../scripts/servers/redis.ts";
import { Resp } from "./resp.ts";

let server: RunningServer;
let redis: Resp;

beforeAll(async () => {
  server = await startRedis({ own: true });
  redis = await Resp.open(server.port);
});

afterAll(async () => {
  redis?.close();
  await server?.stop();
});

describe("Redis 7", () => {
  it("answers PING with PONG", async () => {
    expect(await redis.ask("PING")).toBe("PONG");
  });

  it("is version 7 or later", async () => {
    const version = /redis_version:(\d+)/.exec(String(await redis.ask("INFO", "server")));
    expect(Number(version?.[1])).toBeGreaterThanOrEqual(7);
  });

  it("refuses a second SET NX PX while the first lives, and takes it when that has expired", async () => {
    expect(await redis.ask("SET", "taken", "first", "NX", "PX", "2000")).toBe("OK");
    expect(await redis.ask("SET", "taken", "second", "NX", "PX", "2000")).toBeNull();
    expect(await redis.ask("GET", "taken")).toBe("first");
    await expect.poll(() => redis.ask("SET", "taken", "second", "NX", "PX", "2000")).toBe("OK");
  });

  it("answers EVALSHA of an unknown script with NOSCRIPT, also after SCRIPT FLUSH", async () => {
    const script = "return ARGV[1]";
    const sha = createHash("sha1").update(script).digest("hex");
    await expect(redis.ask("EVALSHA", sha, "0", "hello")).rejects.toThrow(/^NOSCRIPT /);
    expect(await redis.ask("EVAL", script, "0", "hello")).toBe("hello");
    expect(await redis.ask("EVALSHA", sha, "0", "hello")).toBe("hello");
    await redis.ask("SCRIPT", "FLUSH");
    await expect(redis.ask("EVALSHA", sha, "0", "hello")).rejects.toThrow(/^NOSCRIPT /);
  });

  it("tells TIME in seconds and microseconds of the wall clock", async () => {
    const before = Date.now() * 1_000;
    const [seconds, micros] = (await redis.ask("TIME")) as [string, string];
    const after = (Date.now() + 1) * 1_000;
    const serverUs = Number(seconds) * 1_000_000 + Number(micros);
    expect(Number(micros)).toBeLessThan(1_000_000);
    expect(serverUs).toBeGreaterThanOrEqual(before);
    expect(serverUs).toBeLessThanOrEqual(after);
  });

  it("lets a script read TIME and write afterwards", async () => {
    const script =
      "local t = redis.call('TIME') redis.call('SET', KEYS[1], t[1]) return redis.call('GET', KEYS[1])";
    expect(Number(await redis.ask("EVAL", script, "1", "when"))).toBeGreaterThan(1_600_000_000);
  });

  it("keeps whole numbers up to 2^53 exact when a script packs them, and unpacks several at once", async () => {
    const script =
      "local a, b = cmsgpack.unpack(cmsgpack.pack(tonumber(ARGV[1]), { x = tonumber(ARGV[1]) - 1 })) " +
      "return { string.format('%.0f', a), string.format('%.0f', b.x) }";
    expect(await redis.ask("EVAL", script, "0", "9007199254740992")).toEqual([
      "9007199254740992",
      "9007199254740991",
    ]);
  });

  it("breaks a transaction by a write to what it watches, even of the same value, and forgets WATCH with the connection", async () => {
    const watching = await Resp.open(server.port);
    const set = async (on: Resp): Promise<unknown> => {
      await on.ask("MULTI");
      await on.ask("SET", "watched", "mine");
      return on.ask("EXEC");
    };
    await redis.ask("SET", "watched", "same");
    await watching.ask("WATCH", "watched");
    await redis.ask("SET", "watched", "same");
    expect(await set(watching)).toBeNull();
    expect(await set(watching)).toEqual(["OK"]);
    await watching.ask("WATCH", "watched");
    watching.close();
    await redis.ask("SET", "watched", "theirs");
    const again = await Resp.open(server.port);
    expect(await set(again)).toEqual(["OK"]);
    again.close();
  });

  it("counts with WAIT the replicas that have the writes of the same connection, not those of others", async () => {
    const replica = await startRedis({ own: true, args: ["--replicaof", "127.0.0.1", String(server.port)] });
    const [writing, other] = [await Resp.open(server.port), await Resp.open(server.port)];
    try {
      do await writing.ask("SET", "attached", "1");
      while ((await writing.ask("WAIT", "1", "50")) !== 1);
      replica.kill("SIGSTOP");
      await writing.ask("SET", "unseen", "1");
      expect(await other.ask("WAIT", "1", "50")).toBe(1);
      expect(await writing.ask("WAIT", "1", "50")).toBe(0);
    } finally {
      writing.close();
      other.close();
      await replica.stop();
    }
  });

  it("when memory is full refuses SET as the first write of a script, and takes it after a PEXPIRE", async () => {
    const set = "redis.call('SET', KEYS[1], 'new', 'PX', '60000') return 1";
    await redis.ask("SET", "full", "old", "PX", "60000");
    await redis.ask("CONFIG", "SET", "maxmemory", "1");
    try {
      await expect(redis.ask("EVAL", set, "1", "full")).rejects.toThrow(/^OOM /);
      expect(await redis.ask("EVAL", `redis.call('PEXPIRE', KEYS[1], '60000') ${set}`, "1", "full")).toBe(1);
      const again = `local set = redis.pcall('SET', KEYS[1], 'x') if not set.err then return 0 end redis.call('PEXPIRE', KEYS[1], '60000') ${set}`;
      expect(await redis.ask("EVAL", again, "1", "full")).toBe(1);
    } finally {
      await redis.ask("CONFIG", "SET", "maxmemory", "0");
    }
  });

  it("delivers what a script publishes to whoever listens by then, and keeps it for nobody", async () => {
    const listening = await Resp.open(server.port);
    const publish = "return redis.call('PUBLISH', ARGV[1], ARGV[2])";
    expect(await redis.ask("EVAL", publish, "0", "news", "early")).toBe(0);
    expect(await listening.ask("SUBSCRIBE", "news")).toEqual(["subscribe", "news", 1]);
    expect(await redis.ask("EVAL", publish, "0", "news", "late")).toBe(1);
    listening.close();
  });
});
