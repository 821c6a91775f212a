// Facts about PostgreSQL that the product leans on, asked of a real server.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { Client } from "pg";
import { startPostgres } from "../../../scripts/servers/postgres.ts";
import type { RunningServer } from "../../../scripts/servers/process.ts";

let server: RunningServer;
const clients: Client[] = [];

beforeAll(async () => {
  server = await startPostgres({ own: true });
  const client = await connected();
  await client.query("CREATE TABLE t (k bytea PRIMARY KEY, n bigint NOT NULL)");
});

afterEach(async () => {
  for (const client of clients.splice(0)) await client.end().catch(() => {});
});

afterAll(() => server?.stop());

async function connected(): Promise<Client> {
  const client = new Client({ connectionString: server.url });
  client.on("error", () => {});
  await client.connect();
  clients.push(client);
  return client;
}

async function one(client: Client, text: string, values: unknown[] = []): Promise<unknown> {
  const { rows } = await client.query<Record<string, unknown>>(text, values);
  return Object.values(rows[0] ?? {})[0];
}

describe("PostgreSQL", () => {
  it("gives the time of the statement's beginning as now(), and the time itself as clock_timestamp()", async () => {
    const client = await connected();
    await client.query("BEGIN");
    const [now, clock] = [await one(client, "SELECT now()"), await one(client, "SELECT clock_timestamp()")];
    await sleep(20);
    expect(await one(client, "SELECT now()")).toEqual(now);
    expect(Number(await one(client, "SELECT clock_timestamp()"))).toBeGreaterThan(Number(clock));
    await client.query("COMMIT");
  });

  it("has no room in an index for a key of 4,096 bytes that cannot be compressed, hence the digest", async () => {
    const client = await connected();
    const { randomBytes } = await import("node:crypto");
    await expect(client.query("INSERT INTO t VALUES ($1, 1)", [randomBytes(4_096)])).rejects.toMatchObject({
      code: "54000",
    });
  });

  it("after a wait for a row decides ON CONFLICT ... WHERE by what the row has become", async () => {
    const [first, second] = [await connected(), await connected()];
    const text =
      "INSERT INTO t VALUES ('\\x01', 1) ON CONFLICT (k) DO UPDATE SET n = t.n + 1 WHERE t.n < 2 RETURNING n";
    await first.query("INSERT INTO t VALUES ('\\x01', 1)");
    await first.query("BEGIN");
    expect(await one(first, text)).toBe("2");
    const waiting = one(second, text);
    await sleep(50);
    await first.query("COMMIT");
    expect(await waiting).toBeUndefined();
  });

  it("sees the newest row in ON CONFLICT DO UPDATE, although its snapshot is older", async () => {
    const [first, second] = [await connected(), await connected()];
    await first.query("INSERT INTO t VALUES ('\\x02', 7)");
    await first.query("BEGIN");
    await first.query("UPDATE t SET n = 100 WHERE k = '\\x02'");
    const waiting = one(
      second,
      "INSERT INTO t VALUES ('\\x02', 1) ON CONFLICT (k) DO UPDATE SET n = t.n + 1 RETURNING n",
    );
    await sleep(50);
    await first.query("COMMIT");
    expect(await waiting).toBe("101");
  });

  it("notifies with the commit and not without it", async () => {
    const [told, teller] = [await connected(), await connected()];
    const heard: string[] = [];
    told.on("notification", ({ payload }) => heard.push(payload ?? ""));
    await told.query('LISTEN "news"');
    await teller.query("BEGIN");
    await teller.query("SELECT pg_notify('news', 'never')");
    await teller.query("ROLLBACK");
    await teller.query("SELECT pg_notify('news', 'at once')");
    const endMs = performance.now() + 100_000;
    while (heard.length === 0 && performance.now() < endMs) await sleep(5);
    expect(heard).toEqual(["at once"]);
  });

  it("has told a session what was notified before its own statement when that statement ends", async () => {
    const [told, teller] = [await connected(), await connected()];
    let heard = 0;
    told.on("notification", () => (heard += 1));
    await told.query('LISTEN "order"');
    for (let sent = 1; sent <= 100; sent += 1) {
      await teller.query("SELECT pg_notify('order', $1)", [String(sent)]);
      await told.query("SELECT 1");
      expect(heard).toBe(sent);
    }
  });

  it("keeps a session lock over a rollback, and frees it with the connection", async () => {
    const [holder, other] = [await connected(), await connected()];
    await holder.query("BEGIN");
    expect(await one(holder, "SELECT pg_try_advisory_lock(42)")).toBe(true);
    await holder.query("ROLLBACK");
    expect(await one(other, "SELECT pg_try_advisory_lock(42)")).toBe(false);
    await holder.end();
    const endMs = performance.now() + 100_000;
    let free: unknown = false;
    while (free !== true && performance.now() < endMs)
      free = await one(other, "SELECT pg_try_advisory_lock(42)");
    expect(free).toBe(true);
  });

  it("shows a session lock in pg_locks with its 64 bits in two halves", async () => {
    const [holder, other] = [await connected(), await connected()];
    for (const lock of ["-7", "1311768467463790320"]) {
      await holder.query("SELECT pg_advisory_lock($1::bigint)", [lock]);
      const text =
        "SELECT (classid::bigint << 32 | objid::bigint)::text FROM pg_locks WHERE locktype = " +
        "'advisory' AND objsubid = 1 AND classid::bigint << 32 | objid::bigint = $1::bigint";
      expect(await one(other, text, [lock])).toBe(lock);
      await holder.query("SELECT pg_advisory_unlock($1::bigint)", [lock]);
    }
  });

  it("ends a session that has been idle for idle_session_timeout, and not one that is at work", async () => {
    const [idle, other] = [await connected(), await connected()];
    // Longer than a busy machine needs from one statement to the next.
    await idle.query("SELECT set_config('idle_session_timeout', '1500', false), pg_advisory_lock(43)");
    await idle.query("SELECT pg_sleep(2)");
    expect(await one(other, "SELECT pg_try_advisory_lock(43)")).toBe(false);
    await expect.poll(() => one(other, "SELECT pg_try_advisory_lock(43)"), { timeout: 100_000 }).toBe(true);
  });

  it("frees a lock of a transaction that was taken after a savepoint when it is rolled back to it", async () => {
    const [holder, other] = [await connected(), await connected()];
    await holder.query("BEGIN");
    await holder.query("SAVEPOINT s");
    expect(await one(holder, "SELECT pg_try_advisory_xact_lock(44)")).toBe(true);
    await holder.query("ROLLBACK TO SAVEPOINT s");
    expect(await one(other, "SELECT pg_try_advisory_lock(44)")).toBe(true);
    await holder.query("ROLLBACK");
  });

  it("tells its number at the start of a connection, and it is that of the session", async () => {
    const client = await connected();
    expect((client as unknown as { processID: number }).processID).toBe(
      await one(client, "SELECT pg_backend_pid()"),
    );
  });
});
