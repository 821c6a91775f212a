// Names and values in etcd and ZooKeeper that are not ours, below what is.

import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startEtcd } from "../../scripts/servers/etcd.ts";
import type { RunningServer } from "../../scripts/servers/process.ts";
import { startZooKeeper } from "../../scripts/servers/zookeeper.ts";
import { createLocks, type Locks } from "../../src/index.ts";
import {
  create,
  Flags,
  getChildren,
  getData,
  OPEN_ACL,
  remove,
} from "../../src/stores/zookeeper/wire/ops.ts";
import { b64, Gateway } from "../servers/etcd-gateway.ts";
import { type Bare, bareSession } from "../servers/zookeeper-tree.ts";
import { complaints, damagedJson, runs } from "./damage.ts";

const ID = "ab".repeat(16);
const part = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 12 }),
  fc.constantFrom("", "1", "0", "-1", "w", "r", "kw", "x", "%", "%zz", "%2F", ID, "9".repeat(30)),
);

describe("etcd", () => {
  let server: RunningServer;
  let gateway: Gateway;
  let locks: Locks;
  let real = "";

  beforeAll(async () => {
    server = await startEtcd({ own: true });
    gateway = new Gateway(`127.0.0.1:${server.port}`);
    locks = createLocks(server.url);
    const lease = await locks.acquire("damaged");
    const [name = ""] = await gateway.keys("holdfast/k/damaged/");
    const { kvs } = await gateway.ask<{ kvs: { value: string }[] }>("kv/range", { key: b64(name) });
    real = Buffer.from(kvs[0]?.value ?? "", "base64").toString();
    await lease.release();
  }, 120_000);

  afterAll(async () => {
    await locks?.close();
    await server?.stop();
  });

  async function bears(name: string, value: string): Promise<void> {
    await gateway.put(name, value);
    try {
      expect(await complaints(locks, "damaged", "fine")).toEqual([]);
    } finally {
      await gateway.delete(name);
    }
  }

  it("values of another shape are told by name", async () => {
    await fc.assert(
      fc.asyncProperty(
        damagedJson(() => real),
        fc.constantFrom("w", "r", "kw", "kr"),
        async (text, mode) => {
          await bears(`holdfast/k/damaged/1/${mode}/${ID}`, text);
        },
      ),
      runs(30),
    );
  });

  it("names of another shape are told by name", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(part, { maxLength: 4 }), fc.boolean(), async (parts, inside) => {
        await bears(`holdfast/k/${inside ? "damaged/" : ""}${parts.join("/")}`, real);
      }),
      runs(30),
    );
  });
});

describe("ZooKeeper", () => {
  let server: RunningServer;
  let bare: Bare;
  let locks: Locks;
  let real = "";

  beforeAll(async () => {
    server = await startZooKeeper({ own: true });
    bare = await bareSession(server.url);
    locks = createLocks(`${server.url}?sessionTimeout=4s`);
    const lease = await locks.acquire("damaged");
    const [name = ""] = await bare.link.send(getChildren("/holdfast/kdamaged"));
    real = (await bare.link.send(getData(`/holdfast/kdamaged/${name}`))).data.toString();
    await lease.release();
  }, 120_000);

  afterAll(async () => {
    await locks?.close();
    await bare?.close();
    await server?.stop();
  });

  async function bears(path: string, data: string): Promise<void> {
    // The container of a key goes by itself when it is empty.
    await locks.using("damaged", () => {});
    await bare.link.send(create({ path, data: Buffer.from(data), acl: OPEN_ACL, flags: Flags.persistent }));
    try {
      expect(await complaints(locks, "damaged", "fine")).toEqual([]);
    } finally {
      await bare.link.send(remove(path)).catch(() => {});
    }
  }

  it("data of another shape is borne", async () => {
    await fc.assert(
      fc.asyncProperty(
        damagedJson(() => real),
        fc.boolean(),
        async (text, kept) => {
          const name = kept ? `kx1.1.1.ff.${ID}` : `x1.1.1.ff.${ID}.0000000000`;
          await bears(`/holdfast/kdamaged/${name}`, text);
        },
      ),
      runs(30),
    );
  });

  it("names of another shape are told by name", async () => {
    const word = part
      .map((text) => text.replaceAll(/[^\x20-\x7e]|\//g, "?"))
      .filter((text) => !/^\.*$/.test(text));
    await fc.assert(
      fc.asyncProperty(
        word,
        fc.constantFrom("/holdfast/kdamaged/", "/holdfast/", "/holdfast/k"),
        async (name, folder) => {
          fc.pre(`${folder}${name}` !== "/holdfast/m");
          await bears(folder + name, real);
        },
      ),
      runs(30),
    );
  });
});
