// One damaged record beside healthy ones in etcd: only its own key fails.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startEtcd } from "../../../scripts/servers/etcd.ts";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import type { OpenStore, Request } from "../../../src/core/store.ts";
import { UnsafeStoreError } from "../../../src/index.ts";
import { makeIo, openOn, request, TamperedClient } from "./fixture.ts";
import { Gateway } from "./gateway.ts";

const KEYS = ["one", "two", "three"];
const io = makeIo();

let server: RunningServer;
let gateway: Gateway;

beforeAll(async () => {
  server = await startEtcd({ own: true });
  gateway = new Gateway(`127.0.0.1:${server.port}`);
});

afterAll(() => server?.stop());

interface Held {
  readonly request: Request;
  readonly cookie: unknown;
}

async function grant(store: OpenStore, one: Request): Promise<Held> {
  const answer = await store.attempt(one, io);
  if (!("granted" in answer)) throw new Error(`not granted: ${Object.keys(answer).join()}`);
  return { request: one, cookie: answer.granted.cookie };
}

/** Writes into the records of a key, or beside them where there are none. */
async function harm(namespace: string, key: string): Promise<void> {
  const names = await gateway.keys(`${namespace}/k/${key}/`);
  for (const name of names.length > 0 ? names : [`${namespace}/k/${key}/1/w/ff`])
    await gateway.put(name, "somebody else's");
}

async function listed(store: OpenStore): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of store.list({ prefix: "", limit: 100 }, io)) keys.push(key);
  return keys.sort();
}

describe("a damaged record in etcd", () => {
  it("leaves the renewal of other leases alone (P17, P19)", async () => {
    const store = await openOn(new TamperedClient(server.url).client, { namespace: "renewed" });
    const held: Held[] = [];
    for (const key of ["damaged", ...KEYS]) held.push(await grant(store, request(key)));
    await harm("renewed", "damaged");
    const items = held.map(({ request: one, cookie }) => {
      return { request: one, cookie, ttlMs: one.ttlMs, lastFences: [], label: one.label };
    });
    const answers = await store.renew(items, io);
    expect(answers.map(({ state }) => state)).toEqual(["unknown", "renewed", "renewed", "renewed"]);
    expect(answers[0]).toMatchObject({ cause: { code: "ERR_STORE_UNSAFE", key: "damaged" } });
    await store.close();
  });

  it("is passed over by list and named by inspect, also beside a lock of several keys (P17)", async () => {
    const store = await openOn(new TamperedClient(server.url).client, { namespace: "listed" });
    for (const key of KEYS) await grant(store, request(key));
    await grant(store, request(["alpha", "mangled"]));
    await harm("listed", "damaged");
    await gateway.put("listed/k/mangled/1/w/ff", "somebody else's");
    expect(await listed(store)).toEqual(["alpha", ...KEYS].sort());
    for (const key of ["damaged", "mangled"])
      await expect(store.inspect(key, io)).rejects.toBeInstanceOf(UnsafeStoreError);
    expect((await store.inspect("alpha", io))?.holders).toHaveLength(1);
    await store.close();
  });
});
