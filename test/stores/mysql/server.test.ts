// Facts about MariaDB that the store leans on, asked of the server itself.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { startMariadb } from "../../../scripts/servers/mariadb.ts";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import { Asking } from "./client.ts";
import { StallMeter } from "../../../src/testing/stall-meter.ts";
import { until } from "../../support/store-calls.ts";

let server: RunningServer;
let one: Asking;
let two: Asking;
const opened: Asking[] = [];

const open = async (options: object = {}): Promise<Asking> => {
  const asking = await Asking.open(server.url, options);
  opened.push(asking);
  return asking;
};

beforeAll(async () => {
  server = await startMariadb({ own: true });
});

beforeEach(async () => {
  for (const asking of opened.splice(0)) asking.close();
  [one, two] = [await open(), await open()];
  await one.run("DROP TABLE IF EXISTS t");
  await one.run("CREATE TABLE t (id INT PRIMARY KEY, v BIGINT NOT NULL, b VARBINARY(64)) ENGINE=InnoDB");
  await one.run("INSERT INTO t (id, v) VALUES (1, 0), (2, 0)");
});

afterAll(async () => {
  for (const asking of opened) asking.close();
  await server?.stop();
});

const codeOf = (work: Promise<unknown>): Promise<number | undefined> =>
  work.then(
    () => 0,
    (error: unknown) => (error as { errno?: number }).errno,
  );

/** A statement that waits shows the state in which it began to wait. */
async function untilInState(waiting: Asking, state: string): Promise<void> {
  const observer = await open();
  const states = "SELECT state FROM information_schema.processlist WHERE id = ?";
  await until(`${state} of session ${waiting.id}`, async () => {
    return (await observer.one(states, [waiting.id])) === state;
  });
  // A statement passes through the same state on its way to the wait.
  await sleep(20);
}

const lockRow = "SELECT id FROM t WHERE id = 1 FOR UPDATE";

describe("counting", () => {
  it("affectedRows counts the rows that were found, because mysql2 asks for it (FOUND_ROWS)", async () => {
    expect((await one.run("UPDATE t SET v = 0 WHERE id = 1")).affectedRows).toBe(1);
    const plain = await open({ flags: ["-FOUND_ROWS"] });
    expect((await plain.run("UPDATE t SET v = 0 WHERE id = 1")).affectedRows).toBe(0);
  });

  it("affectedRows of ON DUPLICATE KEY UPDATE does not tell an insert from an update that changed nothing", async () => {
    const same = "INSERT INTO t (id, v) VALUES (1, 0) ON DUPLICATE KEY UPDATE v = 0";
    const fresh = "INSERT INTO t (id, v) VALUES (9, 0) ON DUPLICATE KEY UPDATE v = 0";
    expect((await one.run(same)).affectedRows).toBe(1);
    expect((await one.run(fresh)).affectedRows).toBe(1);
  });

  it("LAST_INSERT_ID(expression) comes back with the reply of an UPDATE, exact up to 2^53, and not when no row was met", async () => {
    const big = 9_007_199_254_740_000;
    const set = "UPDATE t SET v = LAST_INSERT_ID(GREATEST(v + 1, ?)) WHERE id = ?";
    expect((await one.run(set, [big, 1])).insertId).toBe(big);
    expect((await one.run(set, [7, 1])).insertId).toBe(big + 1);
    expect((await one.run(set, [7, 99])).insertId).toBe(0);
    const upsert =
      "INSERT INTO t (id, v) VALUES (?, LAST_INSERT_ID(5)) ON DUPLICATE KEY UPDATE v = LAST_INSERT_ID(GREATEST(v + 1, 5))";
    expect((await one.run(upsert, [30])).insertId).toBe(5);
    expect((await one.run(upsert, [30])).insertId).toBe(6);
  });

  it("an assignment of UPDATE sees the assignments to its left", async () => {
    await one.run("UPDATE t SET v = 41, id = v + 1 WHERE id = 1");
    expect(await one.one("SELECT id FROM t WHERE v = 41")).toBe(42);
  });
});

describe("time", () => {
  it("UTC_TIMESTAMP(6) is the calendar in microseconds whatever the session's zone, and one moment per statement", async () => {
    await one.run("SET time_zone = '+07:00'");
    const us = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";
    const before = Date.now() * 1_000;
    const [row] = await one.rows(`SELECT ${us} AS a, SLEEP(0.02) AS s, ${us} AS b`);
    const after = (Date.now() + 1) * 1_000;
    expect(row?.["a"]).toBe(row?.["b"]);
    expect(Number(row?.["a"])).toBeGreaterThanOrEqual(before);
    expect(Number(row?.["a"])).toBeLessThanOrEqual(after);
  });

  it("a statement that waited for a row still has the time at which it began", async () => {
    await one.run("BEGIN");
    await one.rows(lockRow);
    const us = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";
    const waiting = two.run(`UPDATE t SET v = ${us} WHERE id = 1`);
    await untilInState(two, "Updating");
    await sleep(300);
    const beforeCommit = Date.now() * 1_000;
    await one.run("COMMIT");
    await waiting;
    expect(Number(await one.one("SELECT v FROM t WHERE id = 1"))).toBeLessThan(beforeCommit - 200_000);
  });

  it("SYSDATE(6) is the time at which it is evaluated, also after a wait", async () => {
    await one.run("BEGIN");
    await one.rows(lockRow);
    const waiting = two.run("UPDATE t SET v = UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 WHERE id = 1");
    await sleep(300);
    const beforeCommit = (Date.now() - 1) * 1_000;
    await one.run("COMMIT");
    await waiting;
    expect(Number(await one.one("SELECT v FROM t WHERE id = 1"))).toBeGreaterThanOrEqual(beforeCommit);
  });
});

describe("names", () => {
  it("VARBINARY keeps and compares every byte: case, accents, trailing space, zero", async () => {
    await one.run("CREATE OR REPLACE TABLE n (name VARBINARY(64) PRIMARY KEY)");
    const names = ["a", "A", "a ", "a\0", "é", "e\u0301", ""];
    for (const name of names) await one.run("INSERT INTO n VALUES (?)", [Buffer.from(name)]);
    const rows = await one.rows("SELECT name FROM n");
    expect(rows.map((row) => String(row["name"])).sort()).toEqual([...names].sort());
    await one.run("DROP TABLE n");
  });

  it("VARCHAR does not: letters of another case, and a trailing space even under a binary collation, are equal", async () => {
    await one.run("CREATE OR REPLACE TABLE n (name VARCHAR(64) COLLATE utf8mb4_bin PRIMARY KEY)");
    await one.run("INSERT INTO n VALUES ('a')");
    expect(await codeOf(one.run("INSERT INTO n VALUES ('a ')"))).toBe(1062);
    await one.run("CREATE OR REPLACE TABLE n (name VARCHAR(64) COLLATE utf8mb4_general_ci PRIMARY KEY)");
    await one.run("INSERT INTO n VALUES ('a')");
    expect(await codeOf(one.run("INSERT INTO n VALUES ('A')"))).toBe(1062);
    await one.run("DROP TABLE n");
  });
});

describe("waiting for a row", () => {
  it("that ends with error 1205 leaves the transaction open with its locks, until it is rolled back", async () => {
    await one.run("BEGIN");
    await one.rows(lockRow);
    await two.run("SET innodb_lock_wait_timeout = 1");
    await two.run("BEGIN");
    await two.run("UPDATE t SET v = 5 WHERE id = 2");
    expect(await codeOf(two.rows(lockRow))).toBe(1205);
    const three = await open();
    expect(await codeOf(three.rows("SELECT id FROM t WHERE id = 2 FOR UPDATE NOWAIT"))).toBe(1205);
    await two.run("ROLLBACK");
    expect(await codeOf(three.rows("SELECT id FROM t WHERE id = 2 FOR UPDATE NOWAIT"))).toBe(0);
  });

  it("in a circle ends for one with error 1213, whose transaction is rolled back as a whole", async () => {
    await one.run("BEGIN");
    await two.run("BEGIN");
    await one.run("UPDATE t SET v = 1 WHERE id = 1");
    await two.run("UPDATE t SET v = 2 WHERE id = 2");
    const codes = await Promise.all([
      codeOf(one.run("UPDATE t SET v = 1 WHERE id = 2").then(() => one.run("COMMIT"))),
      sleep(50).then(() => codeOf(two.run("UPDATE t SET v = 2 WHERE id = 1").then(() => two.run("COMMIT")))),
    ]);
    expect(new Set(codes)).toEqual(new Set([0, 1213]));
    const victim = codes[0] === 1213 ? one : two;
    expect(await victim.one("SELECT @@in_transaction")).toBe(0);
  });

  it("NOWAIT answers 1205 at once; readers share, by LOCK IN SHARE MODE, and FOR SHARE is not known", async () => {
    await one.run("BEGIN");
    await one.rows("SELECT id FROM t WHERE id = 1 LOCK IN SHARE MODE NOWAIT");
    const three = await open();
    await three.run("BEGIN");
    expect(await codeOf(three.rows("SELECT id FROM t WHERE id = 1 LOCK IN SHARE MODE NOWAIT"))).toBe(0);
    const meter = new StallMeter();
    expect(await codeOf(two.rows(`${lockRow} NOWAIT`))).toBe(1205);
    // The default of innodb_lock_wait_timeout is 50 s.
    expect(meter.workingMs()).toBeLessThan(5_000);
    expect(await codeOf(two.rows("SELECT id FROM t WHERE id = 1 FOR SHARE"))).toBe(1064);
  });

  it("is granted in the order of asking: a reader that comes after a waiting writer waits behind it", async () => {
    const [reader, writer, late] = [one, two, await open()];
    await reader.run("BEGIN");
    await reader.rows("SELECT id FROM t WHERE id = 1 LOCK IN SHARE MODE");
    await writer.run("BEGIN");
    const written = writer.rows(lockRow);
    await untilInState(writer, "Statistics");
    expect(await codeOf(late.rows("SELECT id FROM t WHERE id = 1 LOCK IN SHARE MODE NOWAIT"))).toBe(1205);
    await reader.run("COMMIT");
    await written;
    await writer.run("COMMIT");
  });

  it("is cut by KILL QUERY with error 1317, which leaves the session and its transaction", async () => {
    await one.run("BEGIN");
    await one.rows(lockRow);
    await two.run("BEGIN");
    await two.rows("SELECT id FROM t WHERE id = 2 FOR UPDATE");
    const waiting = codeOf(two.rows(lockRow));
    await untilInState(two, "Statistics");
    await (await open()).run(`KILL QUERY ${two.id}`);
    expect(await waiting).toBe(1317);
    expect(await two.one("SELECT @@in_transaction")).toBe(1);
  });

  it("by a client that is gone does not keep the row: it passes on to the next", async () => {
    await one.run("BEGIN");
    await one.rows(lockRow);
    await two.run("BEGIN");
    two.rows(lockRow).catch(() => {});
    await untilInState(two, "Statistics");
    const three = await open();
    await three.run("BEGIN");
    const next = three.rows(lockRow);
    await untilInState(three, "Statistics");
    two.close();
    await sleep(50);
    const meter = new StallMeter();
    await one.run("COMMIT");
    await next;
    expect(meter.workingMs()).toBeLessThan(5_000);
  });
});

describe("a session", () => {
  it("that is idle for wait_timeout is ended with its transaction, and a ping counts as life", async () => {
    await one.run("SET SESSION wait_timeout = 6");
    await one.run("BEGIN");
    await one.rows(lockRow);
    for (let i = 0; i < 3; i += 1) {
      await sleep(2_200);
      await one.connection.ping();
      expect(await codeOf(two.rows(`${lockRow} NOWAIT`))).toBe(1205);
    }
    const since = performance.now();
    const meter = new StallMeter();
    await two.rows(lockRow);
    expect(performance.now() - since).toBeGreaterThan(5_000);
    expect(meter.workingMs()).toBeLessThan(12_000);
    expect(await codeOf(one.connection.ping())).not.toBe(0);
  });

  it("that waits for a row or sleeps is not idle", async () => {
    await one.run("BEGIN");
    await one.rows(lockRow);
    await two.run("SET SESSION wait_timeout = 1");
    const waiting = two.rows(lockRow);
    await sleep(1_600);
    await one.run("COMMIT");
    expect(await waiting).toHaveLength(1);
  });

  it("has a named lock until it ends, and everybody can see whose it is", async () => {
    expect(await one.one("SELECT GET_LOCK('holdfast:x', 0)")).toBe(1);
    expect(await two.one("SELECT IS_USED_LOCK('holdfast:x')")).toBe(one.id);
    await one.run("COMMIT");
    expect(await two.one("SELECT IS_USED_LOCK('holdfast:x')")).toBe(one.id);
    one.close();
    await until("the end of the lock", async () => {
      return (await two.one("SELECT IS_USED_LOCK('holdfast:x')")) === null;
    });
  });

  it("that waits for a named lock is woken by KILL QUERY and goes on; one that does nothing is not hurt by it", async () => {
    expect(await two.one("SELECT GET_LOCK('holdfast:hush', 0)")).toBe(1);
    const waiting = one.one("SELECT GET_LOCK('holdfast:hush', 3600)");
    await untilInState(one, "User lock");
    await two.run(`KILL QUERY ${one.id}`);
    expect(await waiting).toBe(null);
    await two.run(`KILL QUERY ${one.id}`);
    expect(await one.one("SELECT 7")).toBe(7);
  });
});
