// The users of docs/security.md on MariaDB, PostgreSQL, etcd and ZooKeeper: tables and chroots made by an administrator, locks
// taken by somebody who may do nothing else.

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { startEtcd } from "../../scripts/servers/etcd.ts";
import { APP, startMariadb } from "../../scripts/servers/mariadb.ts";
import type { RunningServer } from "../../scripts/servers/process.ts";
import { startZooKeeper } from "../../scripts/servers/zookeeper.ts";
import { createLocks } from "../../src/index.ts";
import { create, Flags, getChildren, remove } from "../../src/stores/zookeeper/wire/ops.ts";
import { builtDir } from "../support/built.ts";
import { b64, Gateway } from "../stores/etcd/gateway.ts";
import { Asking } from "../stores/mysql/client.ts";
import { bareSession } from "../stores/zookeeper/bare-session.ts";
import { PostgresWorld } from "../stores/postgres/fixture.ts";
import { exercise } from "./exercise.ts";
import { commands, recipe, statements } from "./recipes.ts";

const START_MS = 120_000;

async function on<S extends RunningServer>(
  start: Promise<S>,
  use: (server: S) => Promise<void>,
): Promise<void> {
  const server = await start;
  try {
    await use(server);
  } finally {
    await server.stop();
  }
}

/** What the page lets an administrator type. `doctor` ends with the worst that it finds, and a server for tests has its faults. */
async function asAdmin(url: string): Promise<void> {
  const main = join(builtDir(), "cli", "main.js");
  const script = recipe("sh", "admin").replace("npx holdfast", `"${process.execPath}" "${main}"`);
  const env = { ...process.env, ADMIN_URL: url };
  await promisify(execFile)("/bin/sh", ["-c", script], { env }).catch((error: { code?: unknown }) => {
    if (error.code !== 1 && error.code !== 69) throw error;
  });
}

/** Whoever may not lock in a mode is told so by name. */
async function refused(url: string): Promise<void> {
  const locks = createLocks(url);
  await expect(locks.acquire("k", { wait: "1m" })).rejects.toMatchObject({
    code: "ERR_STORE_UNAVAILABLE",
    retryable: false,
    message: expect.stringMatching(/SELECT, INSERT, UPDATE, DELETE/) as string,
  });
  await locks.close();
}

it(
  "MariaDB: four rights on each table are enough, in either mode",
  () =>
    on(startMariadb({ own: true }), async ({ url }) => {
      const admin = await Asking.open(url);
      for (const mode of ["table", "row"]) await asAdmin(`${url}?mode=${mode}`);
      const user = url.replace(`${APP.user}:${APP.password}@`, "locker:secret@");
      for (const one of statements(recipe("sql", "mysql-table"))) await admin.run(one);
      expect((await exercise(user)).failed).toEqual([]);
      await refused(`${user}?mode=row`);
      for (const one of statements(recipe("sql", "mysql-row"))) await admin.run(one);
      expect((await exercise(`${user}?mode=row`)).failed).toEqual([]);
      const own = await Asking.open(user);
      await expect(own.run("CREATE TABLE locks.mine (a INT)")).rejects.toThrow(/denied/);
      await expect(own.rows("SELECT * FROM mysql.user")).rejects.toThrow(/denied/);
      own.close();
      admin.close();
    }),
  START_MS,
);

it(
  "PostgreSQL: four rights on two tables are enough, in either mode",
  async () => {
    const world = await PostgresWorld.start();
    try {
      for (const mode of ["table", "advisory"]) await asAdmin(`${world.url}?mode=${mode}`);
      const user = world.url.replace("postgres@", "locker:secret@");
      for (const one of statements(recipe("sql", "postgres-table"))) await world.ask(one);
      expect((await exercise(user)).failed).toEqual([]);
      await refused(`${user}?mode=advisory`);
      for (const one of statements(recipe("sql", "postgres-advisory"))) await world.ask(one);
      expect((await exercise(`${user}?mode=advisory`)).failed).toEqual([]);
      const may = "SELECT has_schema_privilege('locker', 'public', 'CREATE')::text AS may";
      expect(await world.ask(may)).toEqual([{ may: "false" }]);
    } finally {
      await world.stop();
    }
  },
  START_MS,
);

describe("etcd", () => {
  /** The lines of etcdctl, which is not at hand, as what it asks the server. */
  async function etcdctl(gateway: Gateway, words: readonly string[]): Promise<unknown> {
    const [program, noun, verb, ...rest] = words;
    expect(program).toBe("etcdctl");
    switch (`${noun} ${verb}`) {
      case "role add":
        return gateway.ask("auth/role/add", { name: rest[0] });
      case "role grant-permission": {
        const [name, flag, type, key = ""] = rest;
        expect([flag, type]).toEqual(["--prefix=true", "readwrite"]);
        const end = key.slice(0, -1) + String.fromCharCode(key.charCodeAt(key.length - 1) + 1);
        const perm = { permType: "READWRITE", key: b64(key), range_end: b64(end) };
        return gateway.ask("auth/role/grant", { name, perm });
      }
      case "user add": {
        const [name, password] = (rest[0] ?? "").split(":");
        return gateway.ask("auth/user/add", { name, password });
      }
      case "user grant-role":
        return gateway.ask("auth/user/grant", { user: rest[0], role: rest[1] });
      default:
        throw new Error(`no such command: ${words.join(" ")}`);
    }
  }

  it(
    "a role on the prefix is enough, and only good for it",
    () =>
      on(startEtcd({ own: true }), async ({ url, port }) => {
        const gateway = new Gateway(`127.0.0.1:${port}`);
        for (const words of commands(recipe("etcdctl"))) await etcdctl(gateway, words);
        for (const line of ["user add root:r", "role add root", "user grant-role root root"])
          await etcdctl(gateway, ["etcdctl", ...line.split(" ")]);
        await gateway.ask("auth/enable");
        const user = url.replace("://", "://locker:secret@");
        expect((await exercise(user)).failed).toEqual([]);
        const elsewhere = createLocks(user, { namespace: "other" });
        await expect(elsewhere.acquire("k", { wait: "1m" })).rejects.toThrow(/may not do that/);
        await elsewhere.close();
        const { token } = await gateway.ask<{ token: string }>("auth/authenticate", {
          name: "locker",
          password: "secret",
        });
        gateway.token = token;
        await expect(gateway.put("orders", "1")).rejects.toThrow(/permission denied/);
        await expect(gateway.put("holdfast0", "1")).rejects.toThrow(/permission denied/);
      }),
    START_MS,
  );
});

describe("ZooKeeper", () => {
  it(
    "a chroot that belongs to the user of the locks is enough, and others cannot see into it",
    () =>
      on(startZooKeeper({ own: true }), async ({ url }) => {
        const { link, close } = await bareSession(url);
        const [verb, path = "", data, rights = ""] = commands(recipe("zkcli"))[0] ?? [];
        const [scheme = "", name = "", digest = "", perms] = rights.split(":");
        expect([verb, data, perms]).toEqual(["create", '""', "cdrwa"]);
        const acl = [{ perms: 31, scheme, id: `${name}:${digest}` }];
        await link.send(create({ path, data: Buffer.alloc(0), acl, flags: Flags.persistent }));
        const user = `${url.replace("://", "://locker:secret@")}${path}`;
        const { failed, findings } = await exercise(user);
        expect(failed).toEqual([]);
        expect(findings).not.toContain("open-acl");
        await expect(link.send(getChildren(path))).rejects.toThrow(/NoAuth/);
        await expect(link.send(remove(path))).rejects.toThrow(/NotEmpty|NoAuth/);
        const stranger = createLocks(`${url.replace("://", "://locker:other@")}${path}`);
        await expect(stranger.acquire("k", { wait: "1m" })).rejects.toMatchObject({
          code: "ERR_STORE_UNAVAILABLE",
          retryable: false,
          message: expect.stringContaining("credentials") as string,
        });
        await stranger.close();
        await close();
      }),
    START_MS,
  );
});
