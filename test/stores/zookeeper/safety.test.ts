// What is refused, what is found, and who may touch what.

import { createServer, type Server } from "node:tls";
import { connect, type AddressInfo } from "node:net";
import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fourLetters, startEnsemble } from "../../../scripts/servers/zookeeper.ts";
import { UnsafeStoreError } from "../../../src/core/errors.ts";
import { createLocks } from "../../../src/index.ts";
import { losesNodes } from "../../../src/stores/zookeeper/health.ts";
import { zookeeper } from "../../../src/stores/zookeeper/index.ts";
import { create, Flags, getChildren, OPEN_ACL, remove } from "../../../src/stores/zookeeper/wire/ops.ts";
import { bareSession } from "./bare-session.ts";
import { CERTIFICATE, KEY } from "./certificate.ts";
import { fencesOf, io, request, SESSION_MS, until, ZooKeeperWorld } from "./fixture.ts";

let world: ZooKeeperWorld;

beforeAll(async () => {
  world = await ZooKeeperWorld.start();
});

afterAll(async () => {
  await world?.stop();
});

describe("credentials", () => {
  it("keep strangers out, with an error that is not worth repeating, and let their owners in", async () => {
    const ours = { user: "ours", password: "secret" };
    const [one, two] = [await world.open(ours, "private"), await world.open(ours, "private")];
    await fencesOf(one, request("k"));
    expect(await two.attempt(request("k"), io)).toHaveProperty("busy");
    const failed = await world
      .open({ user: "ours", password: "wrong" }, "private")
      .catch((error: unknown) => error);
    expect(failed).toMatchObject({ code: "ERR_STORE_UNAVAILABLE", retryable: false });
    expect(String(failed)).toMatch(/credentials/);
    expect(String(failed)).not.toMatch(/secret|wrong/);
  });
});

describe("a chroot", () => {
  it("holds everything, is made when it is not there, and separates", async () => {
    const [one, two] = [await world.open({ chroot: "/a/b" }), await world.open({ chroot: "/a/c" })];
    await fencesOf(one, request("k"));
    await fencesOf(two, request("k"));
    const { connection, close } = await bareSession(world.url);
    expect((await connection.send(getChildren("/a"))).sort()).toEqual(["b", "c"]);
    expect(await connection.send(getChildren("/a/b/t"))).toContain("kk");
    await close();
  });
});

describe("nodes that are not ours", () => {
  it("are refused by name, never passed over and never deleted", async () => {
    const store = await world.open();
    const one = request("foreign");
    const fences = await fencesOf(store, one);
    await store.release(one, null, { lastFences: fences }, io);
    const { connection, close } = await bareSession(world.url);
    const path = "/t/kforeign/lock-0000000001";
    await connection.send(create({ path, data: Buffer.alloc(0), acl: OPEN_ACL, flags: Flags.persistent }));
    await expect(store.attempt(request("foreign", { queue: false }), io)).rejects.toThrow(UnsafeStoreError);
    await connection.send(remove(path));
    await close();
    await fencesOf(store, request("foreign"));
  });
});

describe("check", () => {
  it("says that one server is no ensemble, and that nodes are open to all", async () => {
    const found = (await (await world.open()).check(io)).map(({ id }) => id);
    expect(found.sort()).toEqual(["one-server", "open-acl"]);
  });

  it("says when the session is short for the servers' ticks, or not what was asked for", async () => {
    const short = (await (await world.open({ sessionTimeout: 500 })).check(io)).map(({ id }) => id);
    expect(short).toContain("short-session");
    const long = await world.open({ sessionTimeout: "2m" });
    expect((await long.check(io)).map(({ id }) => id)).toContain("session-timeout");
    expect(long.guarantees.freeAfterCrashMs).toBe(90_000);
  });

  it("names the members of an ensemble that are too old, and nobody who is alone", async () => {
    const ensemble = await startEnsemble(3);
    const locks = createLocks(`${ensemble.url}?sessionTimeout=2s`);
    try {
      const [version = ""] = /[\d.]+/.exec(await fourLetters(ensemble.members[0]?.port ?? 0, "srvr")) ?? [];
      const old = (await locks.check()).filter(({ id }) => id === "old-zookeeper");
      const named = ensemble.members.filter(({ port }) => old[0]?.what.includes(`${port} (${version})`));
      expect(old.map(({ level }) => level)).toEqual(losesNodes(version) ? ["warning"] : []);
      expect(named.length).toBe(losesNodes(version) ? 3 : 0);
    } finally {
      await locks.close();
      await ensemble.stop();
    }
  });

  it("says what it cannot know where the server does not answer to such questions", async () => {
    const proxy = await world.proxy(/^(srvr|conf)/);
    const store = await world.through(proxy);
    proxy.swallow("replies");
    const found = (await store.check(io)).map(({ id }) => id);
    expect(found.sort()).toEqual(["open-acl", "settings-unknown"]);
  });
});

describe("kept keys", () => {
  it("are cleared away by whoever meets them after their time", async () => {
    const store = await world.open();
    const one = request("kept", { keepMs: 200 });
    const fences = await fencesOf(store, one);
    await store.release(one, null, { lastFences: fences }, io);
    expect((await store.inspect("kept", io))?.holders[0]?.kept).toBe(true);
    await until("the end of the record", async () => (await store.inspect("kept", io)) === null);
    const { connection, close } = await bareSession(world.url);
    expect(await connection.send(getChildren("/t/kkept"))).toEqual([]);
    await close();
  });
});

describe("TLS", () => {
  let terminator: Server;

  beforeAll(async () => {
    terminator = createServer({ key: KEY, cert: CERTIFICATE }, (secure) => {
      const plain = connect({ host: "127.0.0.1", port: world.server.port });
      for (const socket of [secure, plain]) socket.on("error", () => plain.destroy());
      secure.pipe(plain).pipe(secure);
    });
    terminator.listen(0, "127.0.0.1");
    await once(terminator, "listening");
  });

  afterAll(async () => {
    await new Promise((resolve) => terminator?.close(resolve));
  });

  it("is spoken where it is asked for, and a stranger's certificate is refused", async () => {
    const { port } = terminator.address() as AddressInfo;
    const wish = { servers: [`127.0.0.1:${port}`], sessionTimeout: SESSION_MS };
    const tls = { ca: CERTIFICATE, servername: "localhost" };
    const locks = createLocks(zookeeper({ ...wish, tls }));
    expect(await locks.using("tls", (lease) => lease.held)).toBe(true);
    await locks.close();
    await expect(world.open({ ...wish, tls: { servername: "localhost" } })).rejects.toThrow(/certificate/i);
  });
});
