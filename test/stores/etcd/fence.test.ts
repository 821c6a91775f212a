// guardKey on a real etcd, over the gateway that its members have.

import { afterAll, beforeAll, expect, test } from "vitest";
import { startEtcd } from "../../../scripts/servers/etcd.ts";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import { type EtcdClient, etcdGateway, guardKey } from "../../../src/fence/index.ts";
import {
  createLocks,
  InvalidArgumentError,
  StaleFenceError,
  StoreUnavailableError,
  UnsafeStoreError,
  UnsupportedError,
} from "../../../src/index.ts";

let server: RunningServer;
let url: string;
let client: EtcdClient;

beforeAll(async () => {
  server = await startEtcd();
  url = server.url.replace(/^etcd:/, "http:").replace(/,.*$/, "");
  client = etcdGateway(url);
});
afterAll(() => server?.stop());

async function get(key: string): Promise<string | null> {
  const answer = await fetch(`${url}/v3/kv/range`, {
    method: "POST",
    body: JSON.stringify({ key: Buffer.from(key).toString("base64") }),
  });
  const { kvs } = (await answer.json()) as { kvs?: { value?: string }[] };
  return kvs === undefined ? null : Buffer.from(kvs[0]?.value ?? "", "base64").toString();
}

test("claims on first touch, writes under the claim, and refuses an older fence (P4)", async () => {
  const key = "phone:139";
  await guardKey(client, key, 5n);
  expect(await get(key)).toBeNull();
  await guardKey.set(client, key, "by five", 5n);
  await guardKey(client, key, 7n);
  const error = await guardKey.set(client, key, "late", 5n).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(StaleFenceError);
  expect(error).toMatchObject({ fence: 5n, seen: 7n, key });
  expect(await get(key)).toBe("by five");
  await guardKey.set(client, key, new TextEncoder().encode("by seven"), 7n);
  expect(await get(key)).toBe("by seven");
  expect(await get(guardKey.fenceName(key))).toBe("7".padStart(19, "0"));
});

test("tells fences apart that a double cannot, and those of different lengths (P4)", async () => {
  const large = 2n ** 62n;
  await guardKey(client, "large", 9n);
  await guardKey(client, "large", 10n);
  await guardKey(client, "large", large + 1n);
  await expect(guardKey(client, "large", large)).rejects.toMatchObject({ seen: large + 1n });
  await expect(guardKey(client, "large", 9n)).rejects.toMatchObject({ seen: large + 1n });
  await guardKey(client, "large", large + 2n);
});

test("of many at once none goes back, and one of those who touch a key first is the first (P4)", async () => {
  const clients = Array.from({ length: 4 }, () => etcdGateway(url));
  const seen: bigint[] = [];
  let over = false;
  const watching = (async () => {
    while (!over) seen.push(BigInt((await get("crowd")) ?? 0));
  })();
  let stale = 0;
  const writer = async (at: number): Promise<void> => {
    for (let turn = 0; turn < 40; turn += 1) {
      // Roughly upwards, each now and then far behind the others.
      const fence = BigInt(1 + turn * 8 + ((at * 5 + turn * 3) % 8) * (turn % 4 === 0 ? 1 : 20));
      await guardKey
        .set(clients[at % clients.length] as EtcdClient, "crowd", String(fence), fence)
        .catch((error: unknown) => {
          expect(error).toBeInstanceOf(StaleFenceError);
          stale += 1;
        });
    }
  };
  await Promise.all(Array.from({ length: 8 }, (_none, at) => writer(at)));
  over = true;
  await watching;
  for (let i = 1; i < seen.length; i += 1)
    expect(seen[i] as bigint).toBeGreaterThanOrEqual(seen[i - 1] as bigint);
  expect(new Set(seen).size).toBeGreaterThan(5);
  expect(BigInt((await get("crowd")) as string)).toBe(
    BigInt((await get(guardKey.fenceName("crowd"))) as string),
  );
  expect(stale).toBeGreaterThan(20);
  for (let round = 0; round < 10; round += 1) {
    const first = clients.map((one, at) =>
      guardKey.set(one, `first ${round}`, String(at + 1), BigInt(at + 1)).catch(() => {}),
    );
    await Promise.all(first);
    expect(await get(`first ${round}`)).toBe("4");
  }
});

test("leases are taken as they are; shared ones, strange clients and strange fences are refused", async () => {
  const locks = createLocks("memory:");
  await locks.using("phone:1", (lease) => guardKey(client, "phone:1:state", lease));
  await locks.using("phone:2", { mode: "shared" }, async (lease) => {
    await expect(guardKey(client, "phone:2:state", lease)).rejects.toThrow(UnsupportedError);
  });
  await locks.using(["a", "b"], async (lease) => {
    await guardKey(client, "state of b", lease, { lock: "b" });
    expect(BigInt((await get(guardKey.fenceName("state of b"))) ?? 0)).toBe(lease.fenceOf("b"));
  });
  await locks.close();
  for (const strange of [{}, { kv: {} }, { kv: null }])
    await expect(guardKey(strange, "k", 1n)).rejects.toThrow(InvalidArgumentError);
  for (const strange of ["", "etcd://127.0.0.1", "http://user:pass@host"])
    expect(() => etcdGateway(strange)).toThrow(InvalidArgumentError);
  await guardKey.set(client, guardKey.fenceName("odd"), "no fence", 1n);
  await expect(guardKey(client, "odd", 1n)).rejects.toThrow(UnsafeStoreError);
});

test("a member that does not answer is passed over by the next call", async () => {
  const two = etcdGateway(`http://127.0.0.1:1,${url}`, { timeoutMs: 20_000 });
  await expect(guardKey(two, "second", 1n)).rejects.toThrow(StoreUnavailableError);
  await guardKey(two, "second", 1n);
  expect(await get(guardKey.fenceName("second"))).toBe("1".padStart(19, "0"));
});
