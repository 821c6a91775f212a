// The users of docs/operations/security.md on MariaDB, PostgreSQL, etcd and ZooKeeper: tables and chroots made by an administrator, locks
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
import { Asking } from "../stores/mysql/client.ts";
import { bareSession } from "../stores/zookeeper/bare-session.ts";
import { PostgresWorld } from "../stores/postgres/fixture.ts";
import { exerciseEtcdUser } from "./etcd-user.ts";
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
  it(
    "a role on the prefix is enough, and only good for it",
    () => on(startEtcd({ own: true }), exerciseEtcdUser),
    START_MS,
  );
});

describe("ZooKeeper", () => {
  it(
    "a chroot that belongs to the user of the locks is enough, and others cannot see into it",
    () =>
      on(startZooKeeper({ own: true }), async ({ url }) => {
        const { connection, close } = await bareSession(url);
        const [verb, path = "", data, rights = ""] = commands(recipe("zkcli"))[0] ?? [];
        const [scheme = "", name = "", digest = "", perms] = rights.split(":");
        expect([verb, data, perms]).toEqual(["create", '""', "cdrwa"]);
        const acl = [{ perms: 31, scheme, id: `${name}:${digest}` }];
        await connection.send(create({ path, data: Buffer.alloc(0), acl, flags: Flags.persistent }));
        const user = `${url.replace("://", "://locker:secret@")}${path}`;
        const { failed, findings } = await exercise(user);
        expect(failed).toEqual([]);
        expect(findings).not.toContain("open-acl");
        await expect(connection.send(getChildren(path))).rejects.toThrow(/NoAuth/);
        await expect(connection.send(remove(path))).rejects.toThrow(/NotEmpty|NoAuth/);
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
