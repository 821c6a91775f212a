// Names and values in ZooKeeper that are not ours, below what is.

import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import { startZooKeeper } from "../../../scripts/servers/zookeeper.ts";
import { createLocks, type Locks } from "../../../src/index.ts";
import {
  create,
  Flags,
  getChildren,
  getData,
  OPEN_ACL,
  remove,
} from "../../../src/stores/zookeeper/wire/ops.ts";
import { complaints, damagedJson, ID, namePart } from "../../support/damage.ts";
import { runs } from "../../support/histories-count.ts";
import { type Bare, bareSession } from "./bare-session.ts";

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
    const [name = ""] = await bare.connection.send(getChildren("/holdfast/kdamaged"));
    real = (await bare.connection.send(getData(`/holdfast/kdamaged/${name}`))).data.toString();
    await lease.release();
  });

  afterAll(async () => {
    await locks?.close();
    await bare?.close();
    await server?.stop();
  });

  async function bears(path: string, data: string): Promise<void> {
    // The container of a key goes by itself when it is empty.
    await locks.using("damaged", () => {});
    await bare.connection.send(
      create({ path, data: Buffer.from(data), acl: OPEN_ACL, flags: Flags.persistent }),
    );
    try {
      expect(await complaints(locks, "damaged", "fine")).toEqual([]);
    } finally {
      await bare.connection.send(remove(path)).catch(() => {});
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
    const word = namePart
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
