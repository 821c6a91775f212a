// Sessions that are woken all the time, by many at once: what that does to a server that others use too.

import { mkdtempSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MariadbNode } from "../../../scripts/servers/mariadb-pair.ts";
import { freePort } from "../../../scripts/servers/ports.ts";
import { createLocks } from "../../../src/index.ts";
import { StallMeter } from "../../../src/testing/stall-meter.ts";
import { parseUrl } from "../../../src/stores/mysql/options.ts";
import { BLOCK, wake, WakeupSession } from "../../../src/stores/mysql/wakeup-session.ts";
import { loadMysql2, Mysql2Port } from "../../../src/stores/mysql/client/mysql2.ts";
import { sql } from "../../../src/stores/mysql/sql.ts";
import type { Address, SqlConnection } from "../../../src/stores/mysql/client/port.ts";
import { io, relayed, until } from "./fixture.ts";

const SESSIONS = 6;
const WAKERS = 12;
const RUN_MS = 3_000;
/** The aim is 100 ms. */
const LONGEST_MS = 1_000;

let node: MariadbNode;
let port: Mysql2Port;
const open = (): Promise<SqlConnection> => port.connect(port.hosts[0] as Address);

beforeAll(async () => {
  node = new MariadbNode(await freePort(), mkdtempSync(join(tmpdir(), "holdfast-mysql-bell-")), 1, {});
  await node.start();
  port = new Mysql2Port(await loadMysql2(), parseUrl(node.url).login);
});

afterAll(async () => {
  port?.close();
  await node?.stop();
});

/** From the first word to a server's greeting. */
function greetedAfterMs(): Promise<number> {
  const meter = new StallMeter();
  const { host, port: number } = port.hosts[0] as Address;
  return new Promise((resolve, reject) => {
    const socket = connect(number, host);
    socket.once("error", reject);
    socket.once("data", () => {
      socket.destroy();
      resolve(meter.workingMs());
    });
  });
}

describe("a wake-up session", () => {
  it("can be woken by everybody all the time, and the server still lets others in", async () => {
    const keeper = await open();
    const woken = Array.from({ length: SESSIONS }, () => 0);
    const sessions = woken.map(
      (_none, at) =>
        new WakeupSession(`session-${at}`, {
          connect: open,
          block: (name) => keeper.run(BLOCK, [name]),
          onWake: () => (woken[at] = (woken[at] as number) + 1),
        }),
    );
    await Promise.all(sessions.map((session) => session.start()));
    const endMs = performance.now() + RUN_MS;
    const waking = Array.from({ length: WAKERS }, async (_none, from) => {
      const own = await open();
      for (let at = from; performance.now() < endMs; at += 1) await wake(own, `session-${at % SESSIONS}`, io);
    });
    const greetings: number[] = [];
    while (performance.now() < endMs) greetings.push(await greetedAfterMs());
    await Promise.all(waking);
    for (const session of sessions) session.close();
    expect(Math.max(...greetings)).toBeLessThan(LONGEST_MS);
    expect(Math.min(...woken)).toBeGreaterThan(10);
  });

  it("waits again after the session that held its blocking lock has ended", async () => {
    const keepers: SqlConnection[] = [];
    let wakes = 0;
    const session = new WakeupSession("kept", {
      connect: open,
      async block(name) {
        keepers.push(await open());
        await keepers.at(-1)?.run(BLOCK, [name]);
      },
      onWake: () => (wakes += 1),
    });
    await session.start();
    await until("the first read", () => wakes === 1);
    keepers[0]?.destroy();
    await until("another session holds it", () => keepers.length === 2 && wakes === 2);
    await wake(await open(), "kept", io);
    // One for the wake-up, and one behind the next wait: a wake-up between the two would have been lost.
    await until("the wake-up", () => wakes === 4);
    expect([session.isListening, keepers.length, wakes]).toEqual([true, 2, 4]);
    session.close();
  });

  it("whose blocking lock nobody can hold is ended, and does not turn in circles", async () => {
    let asked = 0;
    const session = new WakeupSession("loose", {
      connect: open,
      block: () => Promise.resolve((asked += 1)),
      onWake() {},
    });
    await session.start();
    await until("its end", () => !session.isListening);
    expect(asked).toBe(2);
    session.close();
  });

  it("reads what came before the next wait had started (P11)", async () => {
    const locks = createLocks(node.url);
    await locks.using("tables", () => {});
    const [keeper, sender] = [await open(), await open()];
    const insert =
      "INSERT INTO holdfast_revocations (store, id, reason, until_us) VALUES ('late', ?, 'x', 0)";
    const read: string[] = [];
    let waits = 0;
    const session = new WakeupSession("late", {
      async connect() {
        const one = await open();
        return relayed(one, async (text, values) => {
          if (text !== sql["notification_wait"]) return one.run(text, values);
          waits += 1;
          // The second wait is on its way for so long that a notification and its wake-up come first.
          if (waits === 2) {
            await sender.run(insert, ["2"]);
            await wake(sender, "late", io);
          }
          return one.run(text, values);
        });
      },
      block: (name) => keeper.run(BLOCK, [name]),
      waitStatement: () => [sql["notification_wait"], ["late", 0, "late"]],
      async onWake(own) {
        const { rows } = await own.run(sql["notification_read"], ["late", "late"]);
        read.push(...rows.map((row) => String(row["id"])));
        for (const row of rows) await own.run(sql["notification_forget"], ["late", row["id"] as string]);
      },
    });
    await session.start();
    const startMs = performance.now();
    await sender.run(insert, ["1"]);
    await wake(sender, "late", io);
    await until("the second notification", () => read.includes("2"));
    // A wait that nobody ends takes 20 s of the server's clock, however busy the machine is.
    expect(performance.now() - startMs).toBeLessThan(19_000);
    // A wake-up that meets the session while it forgets a notification makes it read that one again.
    expect([...new Set(read)]).toEqual(["1", "2"]);
    session.close();
    await locks.close();
  });
});
