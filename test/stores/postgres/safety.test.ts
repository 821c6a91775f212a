// What is refused by name, what is found by `check`, and that cleaning up never lets a fence go back.

import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createLocks } from "../../../src/index.ts";
import { fullSchema } from "../../../src/stores/postgres/schema.ts";
import { sqlFor } from "../../../src/stores/postgres/sql.ts";
import { answered, fenceOf, io, PostgresWorld, request, until } from "./fixture.ts";

let world: PostgresWorld;

beforeAll(async () => {
  world = await PostgresWorld.start();
});

afterAll(() => world?.stop());

const as = (user: string): string => world.url.replace("postgres@", `${user}@`);

describe("a user who may not make tables", () => {
  it("is told what has to be run, and can lock once it was (P17)", async () => {
    await world.ask("CREATE ROLE plain LOGIN");
    for (const mode of ["table", "advisory"]) {
      const refused = createLocks(`${as("plain")}?mode=${mode}`);
      await expect(refused.acquire("k")).rejects.toMatchObject({
        code: "ERR_STORE_UNAVAILABLE",
        retryable: false,
        message: expect.stringContaining("holdfast schema postgres") as string,
      });
      await refused.close();
    }
    await world.ask(`${fullSchema("holdfast")} ${sqlFor("holdfast").session_schema}`);
    await world.ask(
      `GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast_lock, holdfast_holder, holdfast_waiter, holdfast_ended,
        holdfast_meta, holdfast_fences, holdfast_sessions TO plain`,
    );
    for (const mode of ["table", "advisory"]) {
      const locks = createLocks(`${as("plain")}?mode=${mode}`);
      expect(await locks.using("k", () => 7)).toBe(7);
      await locks.close();
    }
  });
});

describe("a server that has just been opened", () => {
  it("is known to push: what it takes to be heard is waited for", async () => {
    for (let turn = 0; turn < 50; turn += 1) {
      const locks = createLocks(world.url);
      expect((await locks.check()).map(({ id }) => id)).not.toContain("no-push");
      await locks.close();
    }
  });
});

describe("a server that takes no writes", () => {
  it("is refused by the name of its setting (P19)", async () => {
    await world.ask("CREATE ROLE reader LOGIN");
    await world.ask("ALTER ROLE reader SET default_transaction_read_only = on");
    const locks = createLocks(as("reader"));
    await expect(locks.acquire("k")).rejects.toMatchObject({
      code: "ERR_STORE_UNSAFE",
      setting: "default_transaction_read_only",
    });
    await locks.close();
  });
});

describe("check", () => {
  it("finds what may forget locks", async () => {
    await world.ask("CREATE ROLE hasty SUPERUSER LOGIN");
    const locks = createLocks(as("hasty"));
    const found = (await locks.check()).map(({ id }) => id);
    expect(found).toContain("fsync");
    await locks.close();
  });

  it.each(["table", "advisory"])("finds a standby that follows behind the commit, mode %s", async (mode) => {
    const locks = createLocks(`${world.url}?mode=${mode}`);
    const ids = async (): Promise<string[]> => (await locks.check()).map(({ id }) => id);
    expect(await ids()).not.toContain("asynchronous-replication");
    // What pg_receivewal and a standby begin with.
    const standby = new pg.Client({ connectionString: world.url, replication: "true" } as pg.ClientConfig);
    await standby.connect();
    expect(await locks.check()).toContainEqual(
      expect.objectContaining({
        id: "asynchronous-replication",
        level: "info",
        what: "one standby follows behind the commit (synchronous_standby_names is empty)",
      }),
    );
    await standby.end();
    await locks.close();
  });

  it("finds that the tables are gone", async () => {
    const locks = createLocks(`${world.url}?table=dropped`);
    expect((await locks.check()).map(({ id }) => id)).not.toContain("schema");
    await world.ask("DROP TABLE dropped_waiter CASCADE");
    expect(await locks.check()).toContainEqual(expect.objectContaining({ id: "schema", level: "danger" }));
    await locks.close();
  });

  it.each(["table", "advisory"])("makes tables again that are gone, mode %s (P10)", async (mode) => {
    const name = `again_${mode}`;
    const [first, second] = [1, 2].map(() => createLocks(`${world.url}?table=${name}&mode=${mode}`));
    if (first === undefined || second === undefined) throw new Error("no locks");
    const before = await first.acquire("k");
    await before.release();
    await second.inspect("k");
    await world.ask(
      `DROP TABLE IF EXISTS ${name}_lock, ${name}_holder, ${name}_waiter, ${name}_ended, ${name}_meta CASCADE;
        DROP TABLE IF EXISTS ${name}_fences, ${name}_sessions`,
    );
    for (const locks of [first, second]) {
      await until("another lock", () =>
        locks.acquire("k", { wait: 1_000 }).then(
          async (lease) => {
            expect(lease.fence > before.fence).toBe(true);
            return await lease.release();
          },
          () => false,
        ),
      );
      await locks.close();
    }
  });

  it("refuses tables that are not ours", async () => {
    await world.ask("CREATE TABLE other_lock (id int)");
    const other = createLocks(`${world.url}?table=other`);
    await expect(other.acquire("k")).rejects.toMatchObject({
      code: "ERR_STORE_UNAVAILABLE",
      retryable: false,
      message: expect.stringContaining("?table=NAME") as string,
    });
    await other.close();
  });
});

describe("a URL", () => {
  it("to nobody is refused at once, and a wrong mode or table by name", async () => {
    const locks = createLocks("postgres://nobody@127.0.0.1:1/nothing");
    await expect(answered(() => locks.tryAcquire("k"))).rejects.toMatchObject({
      code: "ERR_STORE_UNAVAILABLE",
      message: expect.stringContaining("ECONNREFUSED") as string,
    });
    await locks.close();
    expect(() => createLocks(`${world.url}?mode=fast`)).toThrow("mode");
    expect(() => createLocks(`${world.url}?table=a"b`)).toThrow("table");
  });
});

describe("cleaning up", () => {
  it("deletes what has been over for long, keeps what has not, and a key that comes back has a larger fence (P3, P16)", async () => {
    const store = await world.open();
    const old = request("old");
    const fence = await fenceOf(store, old);
    await store.release(old, null, { lastFences: [fence] }, io);
    const held = request("held");
    const reader = request("read", { mode: "shared" });
    for (const one of [held, reader]) await fenceOf(store, one);
    const waiting = request("held");
    await store.attempt(waiting, io);
    // As if it had been long ago, under a clock that ran ahead.
    const ahead = fence + 3_600_000_000n;
    await world.ask("UPDATE holdfast_lock SET changed_at = now() - interval '1 hour' WHERE namespace = 't'");
    await world.ask("UPDATE holdfast_lock SET last_fence = $1 WHERE key = 'old' AND namespace = 't'", [
      String(ahead),
    ]);
    await world.ask("SELECT holdfast_clean_2('1 minute')");
    const left = await world.ask(
      "SELECT convert_from(key, 'UTF8') AS key FROM holdfast_lock WHERE namespace = 't' ORDER BY 1",
    );
    expect(left).toEqual([{ key: "held" }, { key: "read" }]);
    expect((await fenceOf(store, request("old"))) > ahead).toBe(true);
    expect((await fenceOf(store, request("slow", { mode: "shared" }))) > ahead).toBe(true);
    expect(await store.owns(held, null, io)).toBe(true);
    expect(await store.owns(reader, null, io)).toBe(true);
  });

  it("deletes what holders and waiters that are gone have left (P16)", async () => {
    const store = await world.open(undefined, "gone");
    const dead = request("dead", { ttlMs: 50, graceMs: 0 });
    await fenceOf(store, dead);
    await store.attempt(request("dead"), io);
    await fenceOf(store, request("read", { mode: "shared", ttlMs: 50, graceMs: 0 }));
    const age = "changed_at = changed_at - interval '1 hour', ends_at = ends_at - interval '1 hour'";
    await world.ask(`UPDATE holdfast_lock SET ${age} WHERE namespace = 'gone'`);
    await world.ask(`UPDATE holdfast_holder SET ends_at = ends_at - interval '1 hour'
      WHERE name IN (SELECT name FROM holdfast_lock WHERE namespace = 'gone')`);
    await world.ask(`UPDATE holdfast_waiter SET alive_until = alive_until - interval '1 hour'
      WHERE name IN (SELECT name FROM holdfast_lock WHERE namespace = 'gone')`);
    await world.ask("SELECT holdfast_clean_2('1 minute')");
    expect(await world.ask("SELECT 1 FROM holdfast_lock WHERE namespace = 'gone'")).toEqual([]);
    const left =
      "SELECT 1 FROM holdfast_holder AS h LEFT JOIN holdfast_lock AS l USING (name) WHERE l.name IS NULL";
    expect(await world.ask(left)).toEqual([]);
    expect(await world.ask(left.replace("_holder", "_waiter"))).toEqual([]);
  });
});

describe("without DDL", () => {
  it("missing tables are an error that names the command, and what it prints is enough (P17)", async () => {
    const url = `${world.url}?table=by_hand&createSchema=false`;
    const locks = createLocks(url);
    await expect(locks.acquire("k")).rejects.toMatchObject({
      code: "ERR_STORE_UNAVAILABLE",
      retryable: false,
      message: expect.stringContaining("holdfast schema postgres") as string,
    });
    await locks.close();
    await world.ask(fullSchema("by_hand"));
    // Whoever runs it twice changes nothing.
    await world.ask(fullSchema("by_hand"));
    const next = createLocks(url);
    expect(await next.using("k", () => 7)).toBe(7);
    await next.close();
    expect(() => createLocks(`${world.url}?createSchema=no`)).toThrow("createSchema must be true or false");
  });
});

describe("a role that may not", () => {
  const url = (): string => `${world.url.replace("postgres@", "novice@")}?table=novice`;
  const acquire = async (): Promise<unknown> => {
    const locks = createLocks(url());
    try {
      return await locks.using("k", { wait: 60_000 }, () => 7);
    } finally {
      await locks.close();
    }
  };

  it("create functions is told what has to be run, and leaves no half of it (P17)", async () => {
    await world.ask("CREATE ROLE novice LOGIN; GRANT CREATE, USAGE ON SCHEMA public TO novice");
    await world.ask("REVOKE USAGE ON LANGUAGE plpgsql FROM PUBLIC");
    await expect(acquire()).rejects.toMatchObject({
      code: "ERR_STORE_UNAVAILABLE",
      retryable: false,
      message: expect.stringMatching(
        /permission denied for language plpgsql.*holdfast schema postgres/,
      ) as string,
    });
    await world.ask("GRANT USAGE ON LANGUAGE plpgsql TO PUBLIC");
    expect(await world.ask("SELECT relname FROM pg_class WHERE relname LIKE 'novice%'")).toEqual([]);
  });

  it("execute them is told what to grant, and can lock once it was (P17)", async () => {
    await world.ask(fullSchema("public.novice"));
    await world.ask("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO novice");
    await world.ask("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC");
    await expect(acquire()).rejects.toMatchObject({
      code: "ERR_STORE_UNAVAILABLE",
      retryable: false,
      message: expect.stringMatching(/permission denied for function .*EXECUTE on the functions/) as string,
    });
    await world.ask("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO PUBLIC");
    expect(await acquire()).toBe(7);
  });
});

describe("tables of versions 0.1 and 0.2", () => {
  const OLD = `CREATE TABLE PREFIX_locks (name bytea PRIMARY KEY, namespace text NOT NULL, key bytea NOT NULL,
    version bigint NOT NULL, holder text, ends_at timestamptz, over_at timestamptz NOT NULL,
    last bigint NOT NULL,
    marks jsonb NOT NULL, record text)`;
  const ROW =
    `INSERT INTO PREFIX_locks VALUES ('a', 'holdfast', 'k', 1, 'id', now(), now() + interval '1 hour', ` +
    `$1, '{}')`;

  it("are not used while one of their locks is held, and refuse writes from then on (P22)", async () => {
    const ahead = BigInt(Date.now()) * 1_000n + 3_600_000_000n;
    await world.ask(OLD.replace("PREFIX", "aged"));
    await world.ask(ROW.replace("PREFIX", "aged"), [String(ahead)]);
    const locks = createLocks(`${world.url}?table=aged`);
    await expect(answered(() => locks.acquire("k", { wait: 300 }))).rejects.toMatchObject({
      code: "ERR_STORE_UNAVAILABLE",
      message: expect.stringContaining("earlier version of holdfast") as string,
    });
    await world.ask("UPDATE aged_locks SET holder = NULL, over_at = now()");
    await locks.using("k", { wait: 60_000 }, (lease) => expect(lease.fence > ahead).toBe(true));
    await expect(world.ask("UPDATE aged_locks SET holder = 'id'")).rejects.toThrow("later version");
    await locks.close();
  });
});

it("many processes that open a new database at once all find its tables, in either mode", async () => {
  for (const mode of ["table", "advisory"] as const) {
    for (let round = 1; round <= 5; round += 1) {
      const table = `race_${mode}_${round}`;
      const opened = await Promise.all(
        Array.from({ length: 8 }, () => world.open({ url: world.url, table, mode }, "race")),
      );
      expect(await opened[0]?.inspect("k", io)).toBeNull();
      await Promise.all(opened.map((store) => store.close()));
    }
  }
});
