// An etcd that is full, that asks for passwords, that speaks TLS, whose history is compacted away, and that
// holds what is not ours.

import { afterEach, describe, expect, it } from "vitest";
import { type EtcdOptions, startEtcd } from "../../../scripts/servers/etcd.ts";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import { createLocks, type Locks } from "../../../src/index.ts";
import { etcd } from "../../../src/stores/etcd/index.ts";
import { CA, certificate, pem } from "../../support/tls/certificates.ts";
import { b64, Gateway } from "./gateway.ts";
import { makeIo, openOn, request, TamperedClient } from "./fixture.ts";

const made: Locks[] = [];
let server: RunningServer | null = null;

afterEach(async () => {
  await Promise.all(made.splice(0).map((one) => one.close({ drain: 0 })));
  await server?.stop();
  server = null;
});

async function start(options: EtcdOptions = {}): Promise<{ url: string; gateway: Gateway }> {
  server = await startEtcd({ own: true, ...options });
  return { url: server.url, gateway: new Gateway(`127.0.0.1:${server.port}`) };
}

function locks(...args: Parameters<typeof createLocks>): Locks {
  const one = createLocks(...args);
  made.push(one);
  return one;
}

async function fill(gateway: Gateway): Promise<void> {
  const value = "x".repeat(100_000);
  for (let i = 0; i < 200; i += 1) {
    try {
      await gateway.put(`filler/${i}`, value);
    } catch (error) {
      expect(String(error)).toContain("database space exceeded");
      return;
    }
  }
  throw new Error("it never got full");
}

describe("a full etcd", () => {
  it("lets what is held be renewed and released, refuses new locks by name, and is found (P17, P19)", async () => {
    const { url, gateway } = await start({ args: ["--quota-backend-bytes", "1000000"] });
    const [one, two] = [locks(url), locks(url)];
    const lease = await one.acquire("held", { ttl: "60s" });
    const waiting = two.acquire("held", { wait: 100_000 });
    await expect.poll(async () => (await one.inspect("held"))?.waiters?.length).toBe(1);
    await fill(gateway);
    await expect(one.acquire("new", { wait: 3_000 })).rejects.toMatchObject({
      code: "ERR_STORE_UNAVAILABLE",
      message: expect.stringMatching(/full \(NOSPACE\)/) as string,
    });
    await lease.extend();
    expect(lease.held).toBe(true);
    expect(await lease.verify()).toBe(true);
    expect((await one.check()).map(({ id }) => id)).toContain("nospace");
    expect(await lease.release()).toBe(true);
    const next = await waiting;
    expect(next.fence).toBeGreaterThan(lease.fence);
    expect(await next.release()).toBe(true);
    await expect.poll(() => gateway.keys("holdfast/k/")).toEqual([]);
  });
});

describe("an etcd with authentication", () => {
  async function guarded(): Promise<string> {
    const { url, gateway } = await start();
    await gateway.ask("auth/user/add", { name: "root", password: "r" });
    await gateway.ask("auth/user/add", { name: "app", password: "p:w/d@" });
    await gateway.ask("auth/role/add", { name: "root" });
    await gateway.ask("auth/role/add", { name: "locks" });
    const perm = { permType: "READWRITE", key: b64("holdfast/"), range_end: b64("holdfast0") };
    await gateway.ask("auth/role/grant", { name: "locks", perm });
    await gateway.ask("auth/user/grant", { user: "root", role: "root" });
    await gateway.ask("auth/user/grant", { user: "app", role: "locks" });
    await gateway.ask("auth/enable");
    return url;
  }

  it("is used with a user and a password, and refuses others by name (P17)", async () => {
    const url = await guarded();
    const withUser = (user: string): string => url.replace("etcd://", `etcd://${user}@`);
    const [one, two] = [locks(withUser("app:p%3Aw%2Fd%40")), locks(withUser("app:p%3Aw%2Fd%40"))];
    const lease = await one.acquire("key", { ttl: "60s" });
    lease.signal.addEventListener("abort", () => void lease.release());
    const waiting = two.acquire("key", { wait: 100_000 });
    await expect.poll(async () => (await one.inspect("key"))?.waiters?.length).toBe(1);
    expect(await two.revoke("key", { reason: "test", fence: lease.fence })).toBe(true);
    await expect.poll(() => lease.signal.aborted).toBe(true);
    expect((await waiting).held).toBe(true);
    const wrong = (stranger: Locks): Promise<unknown> => stranger.acquire("key", { wait: 2_000 });
    await expect(wrong(locks(withUser("app:no")))).rejects.toMatchObject({
      retryable: false,
      message: expect.stringMatching(/password is wrong/) as string,
    });
    await expect(wrong(locks(url))).rejects.toThrow(/user name and a password/);
    const elsewhere = locks(withUser("app:p%3Aw%2Fd%40"), { namespace: "other" });
    await expect(wrong(elsewhere)).rejects.toThrow(/may not do that/);
  });

  it("asks the credentials function again when the password has changed", async () => {
    const url = await guarded();
    const gateway = new Gateway(url.replace("etcd://", ""));
    const logIn = async (name: string, password: string): Promise<string> =>
      (await gateway.ask<{ token: string }>("auth/authenticate", { name, password })).token;
    let password = "p:w/d@";
    const byPassword = locks(etcd({ url, credentials: () => ({ user: "app", password }) }));
    const byToken = locks(etcd({ url, credentials: async () => ({ token: await logIn("app", password) }) }));
    const held = [await byPassword.acquire("one"), await byToken.acquire("two")];
    gateway.token = await logIn("root", "r");
    password = "next";
    await gateway.ask("auth/user/changepw", { name: "app", password });
    for (const lease of held) expect(await lease.verify()).toBe(true);
    expect(await (await byToken.acquire("three")).release()).toBe(true);
    for (const lease of held) expect(await lease.release()).toBe(true);
  });

  it("reports a credentials function that fails or returns something else (P17)", async () => {
    const url = await guarded();
    const failing = locks(etcd({ url, credentials: () => Promise.reject(new Error("no secret today")) }));
    await expect(failing.tryAcquire("key")).rejects.toMatchObject({
      code: "ERR_STORE_UNAVAILABLE",
      retryable: true,
      message: "credentials() of etcd() failed: no secret today",
    });
    const wrong = locks(etcd({ url, credentials: (() => ({ password: "secret" })) as never }));
    await expect(wrong.acquire("key")).rejects.toMatchObject({
      code: "ERR_LOCK_ARGUMENT",
      message: expect.stringMatching(
        /must return \{ user, password \}.*got an object with password$/,
      ) as string,
    });
  });

  it("goes on when its tokens have been forgotten", async () => {
    const url = await guarded();
    const one = locks(url.replace("etcd://", "etcd://app:p%3Aw%2Fd%40@"));
    await (await one.acquire("key")).release();
    await (server as RunningServer & { restart(): Promise<void> }).restart();
    const lease = await one.acquire("key", { wait: 100_000 });
    expect(await lease.release()).toBe(true);
  });
});

describe("an etcd with TLS", () => {
  it("is used with its own certificate authority, and not without (P17)", async () => {
    const { url } = await start({ tls: certificate("server") });
    expect(url).toMatch(/^etcds:/);
    // With an authority of its own a server asks clients for certificates too.
    const lease = await locks(etcd({ url, tls: { ca: CA, ...pem("server") } })).acquire("key");
    expect(await lease.release()).toBe(true);
    const strangers = locks(url).acquire("key", { wait: 1_000 });
    await expect(strangers).rejects.toMatchObject({ code: "ERR_STORE_UNAVAILABLE" });
    const clear = locks(url.replace("etcds:", "etcd:")).acquire("key", { wait: 1_000 });
    await expect(clear).rejects.toMatchObject({ code: "ERR_STORE_UNAVAILABLE" });
  });
});

describe("a history that is compacted away", () => {
  it("under a waiter costs it nothing: it is woken up all the same (P11)", async () => {
    const { url, gateway } = await start();
    const tampered = new TamperedClient(url);
    const [store, other] = [await openOn(tampered.client), await openOn(new TamperedClient(url).client)];
    const [holder, waiter] = [request("key"), request("key")];
    expect(await other.attempt(holder, makeIo())).toHaveProperty("granted");
    expect(await store.attempt(waiter, makeIo())).toHaveProperty("busy");
    let woken = 0;
    await store.subscribe?.(waiter, () => void (woken += 1));
    // What it has seen is too old by the time its watch begins.
    tampered.around = async (send) => {
      tampered.around = null;
      const answer = await send();
      for (let i = 0; i < 5; i += 1) await gateway.put("noise", String(i));
      await other.abandon([holder], makeIo());
      await gateway.compact();
      return answer;
    };
    expect(await store.attempt({ ...waiter, seq: 2 }, makeIo())).toHaveProperty("busy");
    await expect.poll(() => woken, { timeout: 100_000 }).toBeGreaterThan(0);
    expect(await store.attempt({ ...waiter, seq: 3 }, makeIo())).toHaveProperty("granted");
    await store.close();
    await other.close();
  });
});

describe("a namespace that something else writes to", () => {
  it("is refused, never overwritten (P19)", async () => {
    const { url, gateway } = await start();
    await gateway.put("holdfast/k/key/1/w/ab", "not ours");
    await expect(locks(url).acquire("key", { wait: 1_000 })).rejects.toMatchObject({
      code: "ERR_STORE_UNSAFE",
    });
    expect(await gateway.keys("holdfast/k/")).toEqual(["holdfast/k/key/1/w/ab"]);
  });
});
