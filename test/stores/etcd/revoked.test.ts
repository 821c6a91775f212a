// What must not keep a free key from its next waiter (P11): a revoked holder or waiter, and a frozen server.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Proxy } from "../../../faults/proxy.ts";
import { startEtcd } from "../../../scripts/servers/etcd.ts";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import type { OpenStore, Request } from "../../../src/core/store.ts";
import { createLocks, type Lease } from "../../../src/index.ts";
import { UnansweredCall } from "../../../src/stores/etcd/cluster/member.ts";
import { makeIo, openOn, request, TamperedClient, until } from "./fixture.ts";

const ROUNDS = 10;
const io = makeIo();

let server: RunningServer;

beforeAll(async () => {
  server = await startEtcd({ own: true });
});

afterAll(() => server?.stop());

async function state(store: OpenStore, one: Request): Promise<string> {
  return Object.keys(await store.attempt(one, io)).join();
}

describe("a revoked request in etcd", () => {
  it("frees the key when its holder lets go, whoever waits and since when (P11)", async () => {
    const [one, two] = [createLocks(server.url), createLocks(server.url)];
    for (let round = 0; round < ROUNDS; round += 1) {
      const lease = await one.acquire("key", { ttl: "10m" });
      lease.signal.addEventListener("abort", () => void lease.release());
      const next = round % 2 === 0 ? one : two;
      const waiting = round % 3 === 0 ? next.acquire("key", { wait: "1m" }) : null;
      await two.revoke("key", { reason: "test", fence: lease.fence });
      await (await (waiting ?? next.acquire("key", { wait: "1m" }))).release();
    }
    await one.close();
    await two.close();
  });

  it("learns of it although its connection was reset just before (P11)", async () => {
    const proxy = await Proxy.listen({ host: "127.0.0.1", port: server.port });
    const [one, two] = [createLocks(`etcd://127.0.0.1:${proxy.port}`), createLocks(server.url)];
    for (let round = 0; round < ROUNDS; round += 1) {
      // Its next renewal is minutes away.
      const lease = await one.acquire("reset", { ttl: "10m" });
      lease.signal.addEventListener("abort", () => void lease.release());
      proxy.drop();
      await two.revoke("reset", { reason: "test", fence: lease.fence });
      const next = await two.acquire("reset", { wait: "1m" });
      expect(lease.held).toBe(false);
      await next.release();
    }
    await one.close();
    await two.close();
    await proxy.close();
  });

  it("learns of it although the server made its watch too late (P11)", async () => {
    const tampered = new TamperedClient(server.url);
    const [one, two] = [
      await openOn(tampered.client, { namespace: "late" }),
      await openOn(new TamperedClient(server.url).client, { namespace: "late" }),
    ];
    const lost: string[] = [];
    one.onLoss?.((id, reason) => void lost.push(`${id} ${reason}`));
    const sendWatches = tampered.delayWatches();
    const holder = request("key");
    expect(await state(one, holder)).toBe("granted");
    expect(await two.revoke("key", { reason: "test", force: false }, io)).toBe("revoked");
    sendWatches();
    await until("the loss", () => lost.length > 0);
    expect(lost).toEqual([`${holder.id} revoked`]);
    await one.close();
    await two.close();
  });

  it("is not reported as held if it was revoked before its grant arrived (P11)", async () => {
    const tampered = new TamperedClient(server.url);
    const one = await openOn(tampered.client, { namespace: "early" });
    const two = await openOn(new TamperedClient(server.url).client, { namespace: "early" });
    const lost: string[] = [];
    one.onLoss?.((id) => void lost.push(id));
    tampered.around = async (send) => {
      tampered.around = null;
      const answer = await send();
      await two.revoke("key", { reason: "test", force: false }, io);
      await until("the note", () => lost.length > 0);
      return answer;
    };
    expect(await state(one, request("key"))).toBe("ended");
    expect(await state(two, request("key"))).toBe("granted");
    await one.close();
    await two.close();
  });

  it("blocks nobody although the cluster did not hear of its end (P11)", async () => {
    const tampered = new TamperedClient(server.url);
    const one = await openOn(tampered.client, { namespace: "orphan" });
    const two = await openOn(new TamperedClient(server.url).client, { namespace: "orphan" });
    const [holder, waiter, behind] = [request("key"), request("key"), request("key")];
    expect(await state(two, holder)).toBe("granted");
    expect(await state(one, waiter)).toBe("busy");
    expect(await state(two, behind)).toBe("busy");
    await two.abandon([holder], io);
    expect(await two.revoke("key", { reason: "test", force: false }, io)).toBe("revoked");
    // The waiter learns that it was revoked, and its deletion gets lost.
    tampered.around = (send, { success = [] }) =>
      success.some((op) => op.delete !== undefined)
        ? Promise.reject(new UnansweredCall("it is lost"))
        : send();
    await expect(one.attempt({ ...waiter, seq: 2 }, io)).rejects.toThrow("it is lost");
    tampered.around = null;
    // As core goes on: once more with the same id, then with a new one.
    expect(await state(one, { ...waiter, seq: 3 })).toBe("ended");
    const again = request("key");
    let seq = 1;
    await until("the grant of the one behind", async () => {
      seq += 1;
      expect(await state(one, { ...again, seq })).toBe("busy");
      return (await state(two, { ...behind, seq })) === "granted";
    });
    await one.close();
    await two.close();
  });
});

describe("a frozen etcd", () => {
  it("does not end a wait because the search for a member ended with another call (P13)", async () => {
    const own = await startEtcd({ own: true });
    const locks = createLocks(own.url);
    await (await locks.acquire("key")).release();
    own.kill("SIGSTOP");
    const waiting: Promise<Lease>[] = [];
    for (let i = 0; i < 12; i += 1) {
      waiting.push(locks.acquire(`key ${i}`, { wait: "1m" }));
      await sleep(300);
    }
    own.kill("SIGCONT");
    expect((await Promise.all(waiting)).every(({ held }) => held)).toBe(true);
    await locks.close();
    await own.stop();
  });
});
