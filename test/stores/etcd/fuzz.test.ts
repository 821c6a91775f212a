// Names and values in etcd that are not ours, below what is.

import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startEtcd } from "../../../scripts/servers/etcd.ts";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import { createLocks, type Locks } from "../../../src/index.ts";
import { complaints, damagedJson, ID, namePart } from "../../support/damage.ts";
import { runs } from "../../support/histories-count.ts";
import { b64, Gateway } from "./gateway.ts";

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
  });

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
      fc.asyncProperty(fc.array(namePart, { maxLength: 4 }), fc.boolean(), async (parts, inside) => {
        await bears(`holdfast/k/${inside ? "damaged/" : ""}${parts.join("/")}`, real);
      }),
      runs(30),
    );
  });
});
