// The lease table on a real server: what survives its death, who may make the tables, victims of deadlocks,
// rows that somebody else has locked, a server that is read-only, and what is left behind.

import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Proxy } from "../../../faults/proxy.ts";
import { MariadbNode } from "../../../scripts/servers/mariadb-pair.ts";
import { freePort } from "../../../scripts/servers/ports.ts";
import { createLocks, type Locks } from "../../../src/index.ts";
import { schemaSql } from "../../../src/stores/mysql/index.ts";
import { sql } from "../../../src/stores/mysql/sql.ts";
import { Asking } from "./client.ts";
import { answered, fenceOf, io, openStore, request, until } from "./fixture.ts";
import { StallMeter } from "../../../src/testing/stall-meter.ts";
import { bundledChild } from "../../support/bundled-child.ts";

let node: MariadbNode;
const opened: Locks[] = [];

const open = (url: string = node.url): Locks => {
  const locks = createLocks(url);
  opened.push(locks);
  return locks;
};

beforeAll(async () => {
  node = new MariadbNode(await freePort(), mkdtempSync(join(tmpdir(), "holdfast-mysql-data-")), 1, {});
  await node.start();
});

afterAll(async () => {
  for (const locks of opened) await locks.close({ drain: 0 });
  await node?.stop();
});

describe("tables that are gone", () => {
  it.each([
    ["table", "locks, holdfast_holders, holdfast_ended, holdfast_primary, holdfast_meta"],
    ["table", "locks"],
    ["row", "row, holdfast_row_holder"],
  ])("are made again by whoever was there before, mode %s, holdfast_%s (P10)", async (mode, tables) => {
    const asking = await Asking.open(node.url);
    const all = [open(`${node.url}?mode=${mode}`), open(`${node.url}?mode=${mode}`)];
    const fences: bigint[] = [];
    for (const locks of all) await locks.using("gone", (lease) => void fences.push(lease.fence));
    await asking.run(`DROP TABLE holdfast_${tables}`);
    for (const locks of all) {
      const lease = await locks.acquire("gone", { wait: 100_000 });
      fences.push(lease.fence);
      await lease.release();
    }
    expect(fences).toEqual([...fences].sort((a, b) => (a < b ? -1 : 1)));
    asking.close();
  });
});

describe("a lease", () => {
  it("survives kill -9 and restart of the server, and so does its fence (P1, P3)", async () => {
    const [holder, other] = [open(), open()];
    const lease = await holder.acquire("survivor", { ttl: "30s" });
    await other.inspect("survivor");
    await node.kill();
    await node.start();
    // Each connection that finds the server restarted fails once, and so does the call that met it.
    const answers = async (call: () => Promise<unknown>, expected: unknown): Promise<void> => {
      let answer: unknown = new Error("nobody answered");
      await until("an answer", () =>
        call().then(
          (value) => ((answer = value), true),
          () => false,
        ),
      );
      expect(answer).toBe(expected);
    };
    await answers(() => other.tryAcquire("survivor"), null);
    await answers(() => lease.verify(), true);
    expect(lease.held).toBe(true);
    expect(await lease.release()).toBe(true);
    const next = await other.acquire("survivor", { wait: 100_000 });
    expect(next.fence > lease.fence).toBe(true);
    await next.release();
  });

  it.each(["table", "row"])(
    "that is waited for behind a network that has gone silent lets its process end after close, mode %s " +
      "(P16)",
    async (mode) => {
      const lease = await open(`${node.url}?mode=${mode}`).acquire("left");
      const proxy = await Proxy.listen({ host: "127.0.0.1", port: node.port });
      const url = `${node.url.replace(String(node.port), String(proxy.port))}?mode=${mode}`;
      const program = bundledChild(join(import.meta.dirname, "children", "leaver.ts"));
      const child = fork(program, [url, "left"]);
      await once(child, "message");
      proxy.cut();
      const meter = new StallMeter();
      child.send("close");
      await once(child, "exit");
      const tookMs = meter.workingMs();
      await proxy.close();
      await lease.release();
      // A connection in the making keeps its process for the 10 s that it may take; a silent one would keep
      // it for ever.
      expect(tookMs).toBeLessThan(25_000);
    },
  );

  it("whose row somebody else has locked is delayed, and nothing stays open behind it (P13, P16)", async () => {
    const locks = open();
    await (await locks.acquire("blocked")).release();
    const operator = await Asking.open(node.url);
    await operator.run("BEGIN");
    await operator.rows("SELECT name FROM holdfast_locks FOR UPDATE");
    const waiting = locks.acquire("blocked", { wait: 100_000 });
    await io.sleep(3_000);
    await operator.run("ROLLBACK");
    const lease = await waiting;
    await lease.release();
    // The session that waits for notifications reads without a snapshot and locks nothing.
    const waits = "COALESCE(trx_query, '') LIKE '%GET_LOCK%' AND trx_isolation_level = 'READ UNCOMMITTED'";
    const transactions = `SELECT COUNT(*) FROM information_schema.innodb_trx WHERE NOT (${waits})`;
    await until("the end of all transactions", async () => Number(await operator.one(transactions)) === 0);
    operator.close();
  });

  it("of several keys goes through although others lock the same rows in every order (P9, P11)", async () => {
    const all = [open(), open(), open()];
    const keys = ["d1", "d2", "d3", "d4"];
    const asking = await Asking.open(node.url);
    let inside = 0;
    const task = async (locks: Locks, turn: number): Promise<void> => {
      const wanted = [keys[turn % 4], keys[(turn * 3 + 1) % 4]] as string[];
      await locks.using([...new Set(wanted)], { wait: 100_000 }, async () => {
        inside += 1;
        await io.sleep(1);
      });
    };
    // Somebody who locks the rows the other way round, so that there are victims.
    let stopped = false;
    const nuisance = (async () => {
      for (let turn = 0; !stopped; turn += 1) {
        await asking.run("BEGIN");
        const order = turn % 2 === 0 ? "ASC" : "DESC";
        await asking
          .rows(`SELECT name FROM holdfast_locks ORDER BY name ${order} FOR UPDATE`)
          .catch(() => []);
        await asking.run("ROLLBACK");
        await io.sleep(5);
      }
    })();
    await Promise.all(Array.from({ length: 18 }, (_none, turn) => task(all[turn % 3] as Locks, turn)));
    stopped = true;
    await nuisance;
    expect(inside).toBe(18);
    asking.close();
  });
});

describe("the tables", () => {
  it("are made by what schemaSql prints where this user may not make them, and the error says so (P17)", async () => {
    await node.query(
      "CREATE DATABASE bare; CREATE USER poor@'127.0.0.1' IDENTIFIED BY 'p'; " +
        "GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON bare.* TO poor@'127.0.0.1'",
    );
    const poor = node.url.replace("app:app@", "poor:p@").replace("/locks", "/bare");
    const refused = async (url: string, why: RegExp): Promise<void> =>
      await expect(open(url).acquire("k")).rejects.toMatchObject({
        code: "ERR_STORE_UNAVAILABLE",
        retryable: false,
        message: expect.stringMatching(why) as string,
      });
    await refused(poor, /CREATE ROUTINE, or row mode.*holdfast schema mysql/);
    await refused(`${poor}?mode=row`, /it needs CREATE\. .*holdfast schema mysql/);
    // Who may make tables only can use row mode, which has no procedures.
    await node.query(
      "CREATE DATABASE no_routines; CREATE USER tables@'127.0.0.1' IDENTIFIED BY 'p'; " +
        "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON no_routines.* TO tables@'127.0.0.1'",
    );
    const tables = node.url.replace("app:app@", "tables:p@").replace("/locks", "/no_routines");
    await refused(tables, /CREATE ROUTINE, or row mode/);
    await (await open(`${tables}?mode=row`).acquire("k")).release();
    // The mode of the session that creates a procedure would be the mode in which it runs for everybody (P1).
    await node.query(
      `SET SESSION sql_mode = 'SIMULTANEOUS_ASSIGNMENT'; USE bare; ${withoutDelimiters(schemaSql())}`,
    );
    const modes = await node.query(
      "SELECT DISTINCT sql_mode FROM information_schema.routines WHERE routine_schema = 'bare'",
    );
    expect(modes).toEqual([{ sql_mode: "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION" }]);
    for (const url of [poor, `${poor}?mode=row`]) await (await open(url).acquire("k")).release();
    // To run it again changes nothing.
    await node.query(`USE bare; ${withoutDelimiters(schemaSql())}`);
    await (await open(poor).acquire("k")).release();
  });

  it.each(["table", "row"])(
    "are not made at run time where the caller forbids it, mode %s (P17)",
    async (mode) => {
      await node.query(`CREATE DATABASE IF NOT EXISTS forbidden_${mode}`);
      const url = `${node.url.replace("/locks", `/forbidden_${mode}`)}?mode=${mode}&createSchema=false`;
      await expect(open(url).acquire("k")).rejects.toMatchObject({
        code: "ERR_STORE_UNAVAILABLE",
        retryable: false,
        message: expect.stringMatching(/createSchema is false.*holdfast schema mysql/) as string,
      });
      const [row] = await node.query(
        `SELECT COUNT(*) AS n FROM information_schema.tables WHERE table_schema = 'forbidden_${mode}'`,
      );
      expect(Number(row?.["n"])).toBe(0);
    },
  );

  it("of version 0.2 keep the store from opening while they have a live lock (P22)", async () => {
    await node.query(
      `CREATE DATABASE before_us; USE before_us;
       CREATE TABLE holdfast_lock (record TEXT, holder VARCHAR(32), ends_us BIGINT, over_us BIGINT);
       INSERT INTO holdfast_lock VALUES (NULL, 'somebody', ${sql["now"]} + 3600000000, 0)`,
    );
    const url = node.url.replace("/locks", "/before_us");
    const late = open(url);
    await expect(answered(() => late.tryAcquire("k"))).rejects.toMatchObject({
      code: "ERR_STORE_UNAVAILABLE",
      retryable: true,
      message: expect.stringContaining("holdfast 0.1 or 0.2") as string,
    });
    await node.query(`UPDATE before_us.holdfast_lock SET ends_us = ${sql["now"]} - 1`);
    const locks = open(url);
    await (await locks.acquire("k")).release();
    // From now on a process of that version finds none of its columns.
    await expect(node.query("UPDATE before_us.holdfast_lock SET ends_us = 0")).rejects.toThrow("ends_us");
    // Upgraded, taken back, and upgraded again.
    await node.query("DROP TABLE before_us.holdfast_lock");
    await node.query("CREATE TABLE before_us.holdfast_lock LIKE before_us.holdfast_lock_before");
    await (await open(url).acquire("k")).release();
    await expect(node.query("UPDATE before_us.holdfast_lock SET ends_us = 0")).rejects.toThrow("ends_us");
  });

  it("of version 0.2 stay where this user may not rename them", async () => {
    await node.query(
      `CREATE DATABASE before_them; USE before_them;
       CREATE USER 'locker'@'%' IDENTIFIED BY 'secret'; GRANT ALL ON before_them.* TO 'locker'@'%';
       REVOKE ALTER, DROP ON before_them.* FROM 'locker'@'%';
       CREATE TABLE holdfast_lock (record TEXT, holder VARCHAR(32), ends_us BIGINT, over_us BIGINT)`,
    );
    const url = node.url.replace(/\/\/[^/]*@/, "//locker:secret@").replace("/locks", "/before_them");
    await (await open(url).acquire("k")).release();
    expect(await node.query("SELECT ends_us FROM before_them.holdfast_lock")).toEqual([]);
  });

  it("can be read by people: key, label, process, actor, times", async () => {
    const locks = open();
    const lease = await locks.acquire("phone:139", { label: "import of numbers" });
    const [row] = await node.query(
      `SELECT CONVERT(lock_key USING utf8mb4) AS k, label, store, actor, first_fence, since_at,
         ends_at > UTC_TIMESTAMP() AS live FROM holdfast_locks WHERE lock_key = 'phone:139'`,
    );
    expect(row).toMatchObject({
      k: "phone:139",
      label: "import of numbers",
      live: 1,
    });
    expect(String(row?.["first_fence"])).toBe(lease.fence.toString());
    expect(String(row?.["store"])).toMatch(new RegExp(`^[0-9a-f]{16}@.+:${process.pid}$`));
    expect(String(row?.["actor"])).not.toBe("");
    await lease.release();
  });

  it("keep a floor when old rows are cleaned away, and a key that comes back starts above it (P3, P16)", async () => {
    const store = await openStore({ url: node.url });
    const first = request("old");
    const fence = await fenceOf(store, first);
    await store.release(first, null, { lastFences: [fence] }, io);
    // As if it had been over for long, with a fence that the clock has not reached.
    const far = fence + 3_600_000_000n;
    await node.query(
      `UPDATE holdfast_locks SET over_us = 1, fence = ${far} WHERE lock_key = 'old' AND namespace = 't'`,
    );
    await node.query(sql["clean"]);
    const [floor] = await node.query("SELECT floor FROM holdfast_floors WHERE namespace = 't'");
    expect(BigInt(floor?.["floor"] as number)).toBe(far);
    const [left] = await node.query(
      "SELECT COUNT(*) AS n FROM holdfast_locks WHERE lock_key = 'old' AND namespace = 't'",
    );
    expect(Number(left?.["n"])).toBe(0);
    expect((await fenceOf(store, request("old"))) > far).toBe(true);
    await store.close();
  });
});

describe("a server", () => {
  it("that is read-only is refused by name, and used again when it is not (P19)", async () => {
    await node.query("SET GLOBAL read_only = 1");
    const locks = open();
    await expect(answered(() => locks.tryAcquire("k"))).rejects.toMatchObject({
      code: "ERR_STORE_UNAVAILABLE",
      message: expect.stringContaining("read-only") as string,
      retryable: true,
    });
    await node.query("SET GLOBAL read_only = 0");
    await (await locks.acquire("k")).release();
  });

  it("is not flooded with connections by row mode: more than maxConnections are refused by name (P17)", async () => {
    const locks = open(`${node.url}?mode=row&maxConnections=2`);
    const held = [await locks.acquire("cap:1"), await locks.acquire("cap:2")];
    await expect(answered(() => locks.acquire("cap:3", { wait: 200 }))).rejects.toMatchObject({
      code: "ERR_STORE_UNAVAILABLE",
      message: expect.stringContaining("maxConnections") as string,
    });
    await held[0]?.release();
    await (await locks.acquire("cap:3", { wait: 60_000 })).release();
    await held[1]?.release();
    expect(() => open(`${node.url}?mode=row&maxConnections=0`)).toThrow("maxConnections");
  });

  it("that could forget is a finding", async () => {
    const ids = (await open().check()).map(({ id }) => id);
    expect(ids).toContain("durability");
    await node.query("SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    await node.query("SET GLOBAL sync_binlog = 1");
    expect((await open().check()).map(({ id }) => id)).not.toContain("durability");
    await node.query("SET GLOBAL innodb_flush_log_at_trx_commit = 2");
    await node.query("SET GLOBAL sync_binlog = 0");
  });

  it("that gives this user one connection only is a finding: nobody can wake it", async () => {
    await node.query(
      "CREATE USER lone@'127.0.0.1' IDENTIFIED BY 'p' WITH MAX_USER_CONNECTIONS 1; GRANT ALL ON locks.* " +
        "TO lone@'127.0.0.1'",
    );
    expect((await open().check()).map(({ id }) => id)).not.toContain("no-push");
    const lone = open(node.url.replace("app:app@", "lone:p@"));
    expect(await lone.check()).toContainEqual(expect.objectContaining({ id: "no-push", level: "warning" }));
  });

  it("with a table of that name that is not ours is refused by name (P17)", async () => {
    await node.query("CREATE DATABASE odd; USE odd; CREATE TABLE holdfast_locks (id int)");
    const odd = open(node.url.replace("/locks", "/odd"));
    await expect(odd.acquire("k")).rejects.toMatchObject({
      code: "ERR_STORE_UNAVAILABLE",
      retryable: false,
      message: expect.stringContaining("somebody else") as string,
    });
  });

  it("behind a network that loses replies grants nothing twice, and fences grow (P3, P8)", async () => {
    const proxy = await Proxy.listen({ host: "127.0.0.1", port: node.port });
    const [far, near] = [open(node.url.replace(`:${node.port}/`, `:${proxy.port}/`)), open()];
    await (await far.acquire("swallowed", { ttl: 900 })).release();
    let before = 0n;
    for (let turn = 0; turn < 4; turn += 1) {
      proxy.swallow("replies");
      const acquiring = far.acquire("swallowed", { ttl: 900, wait: 100_000 });
      await io.sleep(turn * 100);
      proxy.heal();
      const lease = await acquiring;
      expect(lease.fence > before).toBe(true);
      before = lease.fence;
      await lease.release();
    }
    await until("a free key", async () => (await near.inspect("swallowed")) === null);
    await far.close();
    await proxy.close();
  });

  it("that answers late keeps its connections, and what was late is no harm (P8, P13)", async () => {
    const locks = open();
    await (await locks.acquire("slow", { ttl: 600 })).release();
    const connections = async (): Promise<number> => {
      const [row] = await node.query("SHOW GLOBAL STATUS LIKE 'Connections'");
      return Number(row?.["Value"]);
    };
    const before = await connections();
    const operator = await Asking.open(node.url);
    // For three times as long as a call may last, every statement waits for a row that somebody else has
    // locked.
    await operator.run("BEGIN");
    await operator.rows("SELECT name FROM holdfast_locks WHERE lock_key = 'slow' FOR UPDATE");
    const acquiring = locks.acquire("slow", { ttl: 600, wait: 100_000 });
    await io.sleep(700);
    await operator.run("ROLLBACK");
    operator.close();
    await (await acquiring).release();
    // Ours to count, the operator's, and as many as the pool may have; a pool that starts over needs more
    // each time.
    expect((await connections()) - before).toBeLessThanOrEqual(2 + 6);
  });

  it("has no session of ours left after close (P16)", async () => {
    for (const locks of opened.splice(0)) await locks.close({ drain: 0 });
    const asking = await Asking.open(node.url);
    const sessions = async (): Promise<number> =>
      Number(
        await asking.one("SELECT COUNT(*) FROM information_schema.processlist WHERE user IN ('app', 'poor')"),
      );
    await until("the end of the sessions", async () => (await sessions()) === 1);
    expect(await sessions()).toBe(1);
    asking.close();
  });
});

/** The client of the command line needs delimiters; the server itself does not. */
function withoutDelimiters(text: string): string {
  return text.replaceAll(/^DELIMITER .*$/gm, "").replaceAll("//", ";");
}
