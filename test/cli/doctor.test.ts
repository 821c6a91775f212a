// `doctor` against a badly set server of each kind: what it names, and the exit code (P19).

import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { startEtcd } from "../../scripts/servers/etcd.ts";
import { startMariadb } from "../../scripts/servers/mariadb.ts";
import { freePort, freePorts } from "../../scripts/servers/ports.ts";
import { startPostgres } from "../../scripts/servers/postgres.ts";
import type { RunningServer } from "../../scripts/servers/process.ts";
import { startRedis } from "../../scripts/servers/redis.ts";
import { startZooKeeper } from "../../scripts/servers/zookeeper.ts";
import { createLocks } from "../../src/index.ts";
import { Gateway } from "../stores/etcd/gateway.ts";
import { shiftedClock } from "../support/shifted-clock.ts";
import { badly, type Diagnosis, diagnoseIn, on } from "./doctor-fixture.ts";
import { Sandbox } from "./fixture.ts";

const TIMEOUT_MS = 120_000;
let box: Sandbox;
beforeEach(() => void (box = new Sandbox()));
afterEach(() => box.close());

const diagnose = (url: string): Promise<Diagnosis> => diagnoseIn(box, url);
const dead = async (): Promise<string> => `127.0.0.1:${await freePort()}`;

describe("doctor finds", { timeout: TIMEOUT_MS }, () => {
  it("a local directory that everybody may write to", async () => {
    const dir = box.file("open");
    mkdirSync(dir);
    chmodSync(dir, 0o777);
    const seen = await diagnose(`local:${dir}`);
    expect(seen.found).toContain("world-writable warning");
    expect(seen.code).toBe(0);
  });

  it("a Redis that evicts and keeps nothing, and a user that may neither look nor listen", async () => {
    const args = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];
    const rights = ["+@all", "-info", "-subscribe", "-psubscribe", "-ssubscribe"];
    const user = ["--user", "app", "on", ">pw", "~*", "&*", ...rights];
    await on(startRedis({ own: true, args: [...args, ...user] }), async ({ url }) => {
      const seen = await diagnose(url);
      expect(badly(seen)).toEqual(["eviction danger", "persistence warning"]);
      expect(seen.code).toBe(69);
      const blind = await diagnose(url.replace("redis://", "redis://app:pw@"));
      expect(badly(blind)).toEqual(["no-push warning", "settings-unknown info"]);
      expect(blind.code).toBe(0);
    });
  });
});

describe("of the nodes of a redlock", { timeout: TIMEOUT_MS }, () => {
  let nodes: RunningServer[] = [];
  beforeAll(async () => {
    nodes = await Promise.all([
      startRedis({ own: true }),
      startRedis({ own: true }),
      startRedis({
        own: true,
        args: [
          ...["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"],
          ...["--user", "default", "on", "nopass", "~*", "&*", "+@all", "-subscribe", "-psubscribe"],
        ],
      }),
    ]);
  }, TIMEOUT_MS);
  afterAll(() => Promise.all(nodes.map((node) => node.stop())));

  it("inspect shows what each says of a key", async () => {
    await on(startRedis({ own: true }), async (third) => {
      const hosts = [...nodes.slice(0, 2), third].map(({ port }) => `127.0.0.1:${port}`);
      const url = `redlock://${hosts.join(",")}`;
      const locks = createLocks(url, { allow: ["fresh-nodes"] });
      const lease = await locks.acquire("job", { label: "me" });
      const { stdout } = await box.call(["inspect", "job", "--store", url]);
      expect(stdout).toMatch(new RegExp(`held by me .*fence ${lease.fence}`));
      for (const host of hosts) expect(stdout).toMatch(new RegExp(`${host}.*: \\S`));
      const { nodes: said } = JSON.parse(
        (await box.call(["inspect", "job", "--store", url, "--json"])).stdout,
      ) as {
        nodes: { node: string; reason: string }[];
      };
      expect(said.map(({ node }) => node)).toEqual(
        hosts.map((host) => expect.stringContaining(host) as string),
      );
      await locks.close();
    });
  });

  it("doctor finds the one whose clock is wrong", async () => {
    await on(shiftedClock(nodes[1]?.port as number, -7), async (slow) => {
      const hosts = [nodes[0]?.port, slow.port, nodes[2]?.port].map((port) => `127.0.0.1:${port}`);
      const { findings } = await diagnose(`redlock://${hosts.join(",")}`);
      const [skewed, ...more] = findings.filter(({ id }) => id === "clock-skew");
      expect(skewed).toMatchObject({ level: "warning" });
      expect(skewed?.what).toMatch(new RegExp(`${hosts[1]}\\) is \\d{4} ms behind the others'`));
      expect(more).toEqual([]);
    });
  });

  it("doctor finds that they are one server, or none", async () => {
    const [one, two] = nodes.map(({ port }) => `127.0.0.1:${port}`);
    const twice = await diagnose(`redlock://${one},${two},${one}`);
    expect(twice).toMatchObject({ code: 69, found: ["unsafe danger"] });
    expect(twice.findings[0]?.fix).toBe("name each server once");
    const none = await diagnose(`redlock://${await dead()},${await dead()},${await dead()}`);
    expect(none).toMatchObject({ code: 69, found: ["no-quorum danger"] });
  });

  it("looking makes no node vote that has to sit out (P1)", async () => {
    const url = `redlock://${nodes.map(({ port }) => `127.0.0.1:${port}`).join(",")}`;
    const namespace = ["--namespace", "untouched"];
    const { stdout } = await box.call(["doctor", "--store", url, "--json", ...namespace]);
    expect(stdout).toContain('"quarantine"');
    await box.call(["ls", "--store", url, ...namespace]);
    const locks = createLocks(url, { namespace: "untouched", allow: ["eviction"] });
    await expect(locks.tryAcquire("job")).rejects.toMatchObject({ code: "ERR_LOCK_QUORUM" });
    await locks.close();
  });

  it("doctor finds the one that evicts and lets nobody listen, the one that follows another, and the one that is not there", async () => {
    const follow = ["--replicaof", "127.0.0.1", String(nodes[0]?.port)];
    await on(startRedis({ own: true, args: follow }), async (replica) => {
      const hosts = [
        ...nodes.map(({ port }) => `127.0.0.1:${port}`),
        `127.0.0.1:${replica.port}`,
        await dead(),
      ];
      const seen = await diagnose(`redlock://${hosts.join(",")}`);
      expect(seen.found).toEqual(
        expect.arrayContaining([
          "eviction danger",
          "no-push warning",
          "node-unreachable danger",
          "persistence info",
          "replica danger",
        ]),
      );
      expect(seen.code).toBe(69);
      for (const [id, host] of [
        ["eviction", hosts[2]],
        ["no-push", hosts[2]],
        ["replica", hosts[3]],
        ["node-unreachable", hosts[4]],
      ])
        expect(seen.findings.filter((one) => one.id === id).map(({ what }) => what)).toEqual([
          expect.stringContaining(host as string),
        ]);
    });
  });
});

describe("doctor finds", { timeout: TIMEOUT_MS }, () => {
  it("a PostgreSQL that forgets and ends what takes long", async () => {
    const settings = {
      fsync: "off",
      statement_timeout: "1h",
      idle_session_timeout: "1h",
    };
    await on(startPostgres({ own: true, settings }), async ({ url }) => {
      const seen = await diagnose(url);
      expect(badly(seen)).toEqual(["fsync danger", "timeouts info"]);
      expect(seen.findings.at(-1)?.what).toContain("statement_timeout = 3600000ms");
      expect(seen.code).toBe(69);
    });
  });

  it("a MariaDB that forgets, ends resting sessions, and in row mode the locks with them", async () => {
    const args = [
      ...["--innodb-flush-log-at-trx-commit=2", "--log-bin", "--sync-binlog=0"],
      ...["--wait-timeout=30", "--idle-transaction-timeout=20"],
    ];
    await on(startMariadb({ own: true, args }), async ({ url }) => {
      const seen = await diagnose(url);
      expect(badly(seen)).toEqual(["durability warning", "timeouts warning"]);
      expect(seen.findings[0]?.what).toBe("innodb_flush_log_at_trx_commit is 2, sync_binlog is 0");
      expect(seen.code).toBe(0);
      const rows = await diagnose(`${url}?mode=row`);
      expect(badly(rows)).toEqual(["durability warning", "idle-transactions danger", "timeouts warning"]);
      expect(rows.code).toBe(69);
    });
  });

  it("an etcd with one member, and an endpoint that is not there", async () => {
    await on(startEtcd({ own: true }), async ({ url }) => {
      const gone = await dead();
      const seen = await diagnose(`${url},${gone}`);
      expect(badly(seen)).toEqual(["member-unreachable warning", "one-member info"]);
      expect(seen.findings.find(({ id }) => id === "member-unreachable")?.what).toContain(gone);
      expect(seen.code).toBe(0);
      expect(badly(await diagnose(url))).toEqual(["one-member info"]);
      const { hostname, port } = new URL(url);
      const gateway = new Gateway(`${hostname}:${port}`);
      await gateway.ask("maintenance/alarm", { action: "ACTIVATE", memberID: "0", alarm: "CORRUPT" });
      const corrupt = await diagnose(url);
      expect(corrupt.found).toContain("corrupt danger");
      expect(corrupt.code).toBe(69);
    });
  });

  it("a ZooKeeper that stands alone with long ticks, one that has lost its ensemble, and one that is not there", async () => {
    const ports = await freePorts(4);
    const config = [0, 2].map((at) => `server.${at / 2 + 1}=127.0.0.1:${ports[at]}:${ports[at + 1]}`);
    const dataFolder = box.file("lost");
    mkdirSync(dataFolder);
    writeFileSync(join(dataFolder, "myid"), "1");
    await on(startZooKeeper({ own: true, config: ["tickTime=5000"] }), async ({ url }) => {
      await on(startZooKeeper({ own: true, alone: false, dataFolder, config }), async ({ port }) => {
        const gone = await dead();
        const seen = await diagnose(`${url},127.0.0.1:${port},${gone}?sessionTimeout=10s`);
        expect(seen.found).toEqual(
          expect.arrayContaining([
            "one-server warning",
            "server-unreachable warning",
            "short-session warning",
          ]),
        );
        const silent = seen.findings.filter(({ id }) => id === "server-unreachable").map(({ what }) => what);
        expect(silent).toEqual([
          `${gone} does not answer`,
          expect.stringContaining(`${port} is not serving`),
        ]);
        expect(seen.code).toBe(0);
      });
    });
  });
});
