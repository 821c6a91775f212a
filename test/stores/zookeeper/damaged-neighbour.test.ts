// One damaged record beside healthy ones in ZooKeeper: only its own key fails.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type OpenStore } from "../../../src/core/store.ts";
import { UnsafeStoreError } from "../../../src/index.ts";
import {
  create,
  createPath,
  Flags,
  getChildren,
  multi,
  OPEN_ACL,
  remove,
} from "../../../src/stores/zookeeper/wire/ops.ts";
import { type Bare, bareSession } from "./bare-session.ts";
import { fencesOf, io, item, request, ZooKeeperWorld } from "./fixture.ts";

const KEYS = ["one", "two", "three"];
/** Nodes that only a user of this digest may read. */
const FOREIGN_ACL = [{ perms: 31, scheme: "digest", id: "somebody:V5wsTctgECivH7a8uH5RxQ6MIZw=" }];

let world: ZooKeeperWorld;
let bare: Bare;

beforeAll(async () => {
  world = await ZooKeeperWorld.start();
  bare = await bareSession(world.url);
});

afterAll(async () => {
  await bare?.close();
  await world?.stop();
});

async function plant(path: string): Promise<void> {
  const wish = { path, data: Buffer.from("?"), acl: OPEN_ACL, flags: Flags.persistent };
  await bare.connection.send(create(wish));
}

async function listed(store: OpenStore): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of store.list({ prefix: "", limit: 100 }, io)) keys.push(key);
  return keys.sort();
}

describe("a damaged record in ZooKeeper", () => {
  it("leaves the renewal of other leases alone (P17, P19)", async () => {
    const store = await world.open({}, "renewed");
    const held = ["foreign", "damaged", ...KEYS].map((key) => request(key));
    const fences: (readonly bigint[])[] = [];
    for (const one of held) fences.push(await fencesOf(store, one));
    const [name = ""] = await bare.connection.send(getChildren("/renewed/kforeign"));
    const path = `/renewed/kforeign/${name}`;
    const wish = { path, data: Buffer.from("?"), acl: FOREIGN_ACL, flags: Flags.ephemeral };
    await bare.connection.send(multi([remove(path), createPath(wish)]));
    await plant("/renewed/kdamaged/lock-1");
    const answers = await store.renew(
      held.map((one, at) => item(one, fences[at] ?? [])),
      io,
    );
    expect(answers.map(({ state }) => state).join(" ")).toBe("unknown renewed renewed renewed renewed");
    expect(answers[0]).toMatchObject({ cause: { code: "ERR_STORE_UNAVAILABLE", key: "foreign" } });
  });

  it("is passed over by list and named by inspect, also beside a lock of several keys (P17)", async () => {
    const store = await world.open({}, "listed");
    for (const key of KEYS) await fencesOf(store, request(key));
    await fencesOf(store, request(["alpha", "damaged"]));
    await plant("/listed/kdamaged/lock-1");
    expect(await listed(store)).toEqual(["alpha", ...KEYS].sort());
    await expect(store.inspect("damaged", io)).rejects.toBeInstanceOf(UnsafeStoreError);
    expect((await store.inspect("alpha", io))?.holders).toHaveLength(1);
  });
});
