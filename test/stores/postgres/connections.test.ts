// Connections that end at moments at which nobody expects it.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Proxy } from "../../../faults/proxy.ts";
import { ownPool } from "../../../src/stores/postgres/client/connect.ts";
import { Connections, newCall, type PgPool } from "../../../src/stores/postgres/client/connections.ts";
import { nodeSystem } from "../../../src/system/node.ts";
import { openPool } from "../../support/pg-pool.ts";
import { io, PostgresWorld, request, until } from "./fixture.ts";

let world: PostgresWorld;
let proxy: Proxy;

beforeAll(async () => {
  world = await PostgresWorld.start();
  proxy = await Proxy.listen({ host: "127.0.0.1", port: world.server.port });
});

afterAll(async () => {
  await proxy?.close();
  await world?.stop();
});

it("a server that welcomes a client and dies in one breath is an error of whoever asked, and ends no process (P17)", async () => {
  const url = world.url.replace(String(world.server.port), String(proxy.port));
  const connections = new Connections(await ownPool(url), true, nodeSystem.monoMs);
  // Welcome and farewell arrive in one piece.
  proxy.cut("replies");
  const asked = connections.query("SELECT 1", [], newCall()).catch((error: unknown) => error);
  const theirs = "FROM pg_stat_activity WHERE application_name = 'holdfast' AND state = 'idle'";
  await until("the connection", async () => (await world.ask(`SELECT pid ${theirs}`)).length === 1);
  await world.ask(`SELECT pg_terminate_backend(pid) ${theirs}`);
  await until("its end", async () => (await world.ask(`SELECT pid ${theirs}`)).length === 0);
  proxy.heal();
  expect(await asked).toBeInstanceOf(Error);
  await connections.close();
});

it("of calls that wait for a connection nothing is sent or undone later (P20)", async () => {
  const store = await world.open();
  const requests = Array.from({ length: 20 }, (_none, at) => request(`waits:${at}`));
  world.server.kill("SIGSTOP");
  // Without a limit of listeners, as those that core makes.
  const patience = nodeSystem.abortController?.() ?? new AbortController();
  const attempts = requests.map((one) => store.attempt(one, { ...io, signal: patience.signal }));
  const settled = Promise.allSettled(attempts);
  await sleep(200);
  patience.abort();
  const unsent = requests.filter((one) => store.forgetUnsent?.(one) === true);
  world.server.kill("SIGCONT");
  await settled;
  // The pool has six connections.
  expect(unsent.length).toBeGreaterThanOrEqual(14);
  const told = requests.filter((one) => !unsent.includes(one));
  expect(await store.abandon(told, io)).toEqual([]);
  for (const { keys } of unsent) expect(await store.inspect(keys[0] as string, io)).toBeNull();
});

it("thousands of calls that gave up while they waited for a connection end no process (P20)", async () => {
  const pool = openPool(world.url, { max: 1 });
  const connections = new Connections(pool as unknown as PgPool, false, nodeSystem.monoMs);
  const client = await pool.connect();
  const givenUp = new Error("nobody waits for it any more");
  const call = {
    ...newCall(),
    timeoutMs: 1_000,
    missed: () => {},
    sent: () => {
      throw givenUp;
    },
  };
  const statement = { text: "SELECT 1", values: [], plain: null };
  const calls = Array.from(
    { length: 8_000 },
    () =>
      new Promise((resolve) => {
        connections.queryDirect(statement, call, resolve);
      }),
  );
  client.release();
  expect(new Set(await Promise.all(calls))).toEqual(new Set([givenUp]));
  expect(await connections.query("SELECT 1 AS one", [], newCall())).toEqual([{ one: 1 }]);
  await pool.end();
});
