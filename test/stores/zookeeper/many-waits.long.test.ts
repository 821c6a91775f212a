// 10,000 waits in one session whose connection drops: the session comes back with all watches, and every
// waiter is granted in the order of arrival (P11, P12).

import { afterAll, beforeAll, expect, it } from "vitest";
import type { OpenStore, Request } from "../../../src/core/store.ts";
import { fencesOf, io, request, until, ZooKeeperWorld } from "./fixture.ts";

const KEYS = 100;
const WAITERS_PER_KEY = 100;
/** A busy machine may take longer than the connect timeout, so that a server is tried again. */
const MOST_RECONNECTS = 10;
/** Long enough for a busy machine, and more than the servers allow: they negotiate their maximum. */
const SESSION_MS = 60_000;

let world: ZooKeeperWorld;

beforeAll(async () => {
  world = await ZooKeeperWorld.start();
});

afterAll(async () => {
  await world?.stop();
});

/** Attempts at each notification, and releases what is granted. Returns the labels per key in order of grants. */
async function serve(store: OpenStore, waiting: readonly Request[]): Promise<Map<string, string[]>> {
  const granted = new Map<string, string[]>();
  const attempt = async (one: Request): Promise<void> => {
    const answer = await store.attempt({ ...one, seq: 2 }, io);
    if (!("granted" in answer)) return;
    const [key = ""] = one.keys;
    granted.set(key, [...(granted.get(key) ?? []), one.label]);
    await store.release(one, null, { lastFences: answer.granted.fences }, io);
  };
  for (const one of waiting) {
    let last = Promise.resolve();
    await store.subscribe?.(one, () => {
      last = last.then(() => attempt(one));
    });
  }
  return granted;
}

it("are all granted in order after a dropped connection, with a bounded number of reconnects", async () => {
  const proxy = await world.proxy();
  const holder = await world.open();
  const servers = [`127.0.0.1:${proxy.port}`];
  const store = await world.open({ servers, sessionTimeout: SESSION_MS });
  const keys = Array.from({ length: KEYS }, (_none, at) => String(at));
  const held = keys.map((key) => request(key));
  const fences = await Promise.all(held.map((one) => fencesOf(holder, one)));
  const waiting: Request[] = [];
  for (let at = 0; at < WAITERS_PER_KEY; at += 1) {
    const round = keys.map((key) => request(key));
    const answers = await Promise.all(round.map((one) => store.attempt(one, io)));
    expect(answers.every((answer) => "busy" in answer)).toBe(true);
    waiting.push(...round);
  }
  const granted = await serve(store, waiting);

  const { accepted } = proxy;
  proxy.drop();
  await until("the reconnect", () => proxy.accepted > accepted);
  await Promise.all(
    held.map((one, at) => holder.release(one, null, { lastFences: fences[at] as readonly bigint[] }, io)),
  );

  const count = (): number => [...granted.values()].reduce((sum, labels) => sum + labels.length, 0);
  await until("10,000 grants", () => count() === KEYS * WAITERS_PER_KEY, 600_000);
  for (const key of keys) {
    const arrived = waiting.filter((one) => one.keys[0] === key).map(({ label }) => label);
    expect(granted.get(key)).toEqual(arrived);
  }
  expect(proxy.accepted - accepted).toBeLessThanOrEqual(MOST_RECONNECTS);
}, 900_000);
