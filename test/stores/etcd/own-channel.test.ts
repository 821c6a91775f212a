// A gRPC channel and client options that the caller passes, on a real etcd.

import * as grpc from "@grpc/grpc-js";
import { afterEach, expect, it } from "vitest";
import { startEtcd } from "../../../scripts/servers/etcd.ts";
import { createLocks, type Locks } from "../../../src/index.ts";
import { etcd, type EtcdOptions } from "../../../src/stores/etcd/index.ts";

type Server = Awaited<ReturnType<typeof startEtcd>>;

let server: Server | null = null;
const opened: { close(): unknown }[] = [];

afterEach(async () => {
  for (const one of opened.splice(0)) await one.close();
  await server?.stop();
  server = null;
});

async function start(): Promise<string> {
  server = await startEtcd({ own: true });
  return `127.0.0.1:${server.port}`;
}

function channelTo(endpoint: string): grpc.Channel {
  const options = { "grpc.max_reconnect_backoff_ms": 500, "grpc.initial_reconnect_backoff_ms": 100 };
  const channel = new grpc.Channel(endpoint, grpc.credentials.createInsecure(), options);
  opened.push(channel);
  return channel;
}

function locks(options: EtcdOptions): Locks {
  const one = createLocks(etcd(options));
  opened.unshift(one);
  return one;
}

it("locks over a channel of the caller, over a restart of the server too, and leaves it open", async () => {
  const channel = channelTo(await start());
  const [one, two] = [locks({ channel }), locks({ channel })];
  const lease = await one.acquire("key");
  const waiting = two.acquire("key", { wait: 100_000 });
  await expect.poll(async () => (await one.inspect("key"))?.waiters?.length).toBe(1);
  expect(await lease.release()).toBe(true);
  const next = await waiting;
  await server?.restart();
  await expect.poll(() => next.verify().catch(() => "unknown"), { timeout: 100_000 }).toBe(true);
  expect(await next.release()).toBe(true);
  await one.close();
  await two.close();
  expect(channel.getConnectivityState(false)).not.toBe(grpc.connectivityState.SHUTDOWN);
  const third = locks({ channel });
  expect(await (await third.acquire("key")).release()).toBe(true);
}, 120_000);

it("reports a channel that its owner has closed (P17)", async () => {
  const channel = channelTo(await start());
  const one = locks({ channel });
  await (await one.acquire("key")).release();
  channel.close();
  const closed = { code: "ERR_STORE_UNAVAILABLE", message: expect.stringMatching(/shut down/) as string };
  await expect(one.tryAcquire("key")).rejects.toMatchObject(closed);
  await expect(locks({ channel }).tryAcquire("key")).rejects.toMatchObject(closed);
});

it("sends its calls through the client options of the caller", async () => {
  const url = `etcd://${await start()}`;
  const paths: string[] = [];
  const interceptor: grpc.Interceptor = (options, nextCall) => {
    paths.push(options.method_definition.path);
    return new grpc.InterceptingCall(nextCall(options));
  };
  const one = locks({
    url,
    clientOptions: { interceptors: [interceptor], "grpc.keepalive_time_ms": 20_000 },
  });
  await (await one.acquire("key")).release();
  expect(paths).toContain("/etcdserverpb.KV/Txn");
});
