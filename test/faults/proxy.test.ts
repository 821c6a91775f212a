// The proxy against a plain echo server and against a real Redis: each way to misbehave does what it says, and only that.

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { Proxy } from "../../faults/proxy.ts";
import type { RunningServer } from "../../scripts/servers/process.ts";
import { startRedis } from "../../scripts/servers/redis.ts";
import { Resp } from "../stores/redis/resp.ts";

const QUIET_MS = 150;

/** A client that remembers what it has heard. */
class Peer {
  heard = "";
  closed = false;
  readonly #socket: Socket;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (chunk) => (this.heard += String(chunk)));
    socket.on("close", () => (this.closed = true));
    socket.on("error", () => {});
  }

  static async open(port: number): Promise<Peer> {
    const socket = connect({ host: "127.0.0.1", port });
    await once(socket, "connect");
    return new Peer(socket);
  }

  say(text: string): void {
    this.#socket.write(text);
  }

  end(): void {
    this.#socket.end();
  }

  close(): void {
    this.#socket.destroy();
  }
}

async function soon(holds: () => boolean): Promise<void> {
  const endMs = performance.now() + 100_000;
  while (!holds() && performance.now() < endMs) await sleep(5);
  expect(holds()).toBe(true);
}

describe("the proxy in front of an echo server", () => {
  let echo: Server;
  let reached = "";
  let proxy: Proxy;
  let peer: Peer;

  beforeEach(async () => {
    reached = "";
    echo = createServer((socket) => {
      socket.on("error", () => {});
      socket.on("data", (chunk) => {
        reached += String(chunk);
        socket.write(chunk);
      });
    });
    echo.listen(0, "127.0.0.1");
    await once(echo, "listening");
    proxy = await Proxy.listen({ host: "127.0.0.1", port: (echo.address() as AddressInfo).port });
    peer = await Peer.open(proxy.port);
  });

  afterEach(async () => {
    peer.close();
    await proxy.close();
    echo.close();
  });

  it("leaves connections half open: those that exist are silent, new ones work", async () => {
    peer.say("one");
    await soon(() => peer.heard === "one");
    proxy.halfOpen();
    peer.say("two");
    const next = await Peer.open(proxy.port);
    next.say("three");
    await soon(() => next.heard === "three");
    await sleep(QUIET_MS);
    expect([peer.heard, peer.closed, reached]).toEqual(["one", false, "onethree"]);
    proxy.heal();
    await soon(() => peer.closed);
    expect(next.closed).toBe(false);
    next.close();
  });

  it("passes everything on, and the orderly end", async () => {
    peer.say("hello");
    await soon(() => peer.heard === "hello");
    peer.end();
    await soon(() => peer.closed && proxy.connections === 0);
  });

  it("cut both ways holds everything back until it is healed", async () => {
    proxy.cut();
    peer.say("late");
    await sleep(QUIET_MS);
    expect([reached, peer.heard]).toEqual(["", ""]);
    proxy.heal();
    await soon(() => peer.heard === "late");
  });

  it("cut for replies lets requests through", async () => {
    proxy.cut("replies");
    peer.say("done");
    await soon(() => reached === "done");
    await sleep(QUIET_MS);
    expect(peer.heard).toBe("");
    proxy.heal();
    await soon(() => peer.heard === "done");
  });

  it("cut for requests still lets what is under way come back", async () => {
    proxy.delay(50);
    peer.say("first");
    await soon(() => reached === "first");
    proxy.cut("requests");
    peer.say("second");
    await soon(() => peer.heard === "first");
    await sleep(QUIET_MS);
    expect(reached).toBe("first");
  });

  it("accepts new connections while it is cut, and they stay silent", async () => {
    proxy.cut();
    const late = await Peer.open(proxy.port);
    late.say("anybody");
    await sleep(QUIET_MS);
    expect([reached, late.heard, late.closed]).toEqual(["", "", false]);
    proxy.heal();
    await soon(() => late.heard === "anybody");
    late.close();
  });

  it("lets go of the server when a client has left while the replies were cut", async () => {
    const count = (): Promise<number> =>
      new Promise((resolve) => void echo.getConnections((_error, found) => resolve(found)));
    peer.say("written");
    await soon(() => reached === "written");
    proxy.cut();
    peer.close();
    await sleep(QUIET_MS);
    proxy.heal();
    for (let tries = 0; tries < 10_000 && (await count()) > 0; tries += 1) await sleep(10);
    expect(await count()).toBe(0);
  });

  it("swallows replies for ever, and drops the connection at the healing", async () => {
    proxy.swallow("replies");
    peer.say("written");
    await soon(() => reached === "written");
    await sleep(QUIET_MS);
    expect([peer.heard, peer.closed]).toEqual(["", false]);
    proxy.heal();
    await soon(() => peer.closed);
    expect(peer.heard).toBe("");
  });

  it("swallows requests: the server never sees them", async () => {
    proxy.swallow("requests");
    peer.say("lost");
    await sleep(QUIET_MS);
    proxy.heal();
    await soon(() => peer.closed);
    expect(reached).toBe("");
  });

  it("delays each direction and keeps the order", async () => {
    proxy.delay(60);
    const startMs = performance.now();
    peer.say("a");
    await sleep(10);
    peer.say("b");
    await soon(() => peer.heard === "ab");
    expect(performance.now() - startMs).toBeGreaterThan(115);
  });

  it("tells of other ports than the server did, and changes nothing else", async () => {
    proxy.rename([40_001, 40_002], [50_001, 50_002]);
    const other = await Peer.open(proxy.port);
    other.say("at 127.0.0.1:40001, :40002\r\n, 140001, 400011, 40003");
    await soon(() => other.heard.endsWith("40003"));
    expect(other.heard).toBe("at 127.0.0.1:50001, :50002\r\n, 140001, 400011, 40003");
    expect(reached).toBe("at 127.0.0.1:40001, :40002\r\n, 140001, 400011, 40003");
    expect(() => proxy.rename([40_001], [9_001])).toThrow("not as long");
    other.close();
  });

  it("drops connections at once, and takes new ones", async () => {
    proxy.drop();
    await soon(() => peer.closed && proxy.connections === 0);
    const next = await Peer.open(proxy.port);
    next.say("again");
    await soon(() => next.heard === "again");
    next.close();
  });
});

describe("the proxy in front of a real Redis", () => {
  let server: RunningServer;
  let direct: Resp;
  let proxy: Proxy;

  beforeAll(async () => {
    server = await startRedis({ own: true });
    direct = await Resp.open(server.port);
    proxy = await Proxy.listen({ host: "127.0.0.1", port: server.port });
  });

  afterAll(async () => {
    direct?.close();
    await proxy?.close();
    await server?.stop();
  });

  it("is not noticed while it passes", async () => {
    const through = await Resp.open(proxy.port);
    expect(await through.ask("SET", "a", "1")).toBe("OK");
    expect(await direct.ask("GET", "a")).toBe("1");
    through.close();
  });

  it("swallows the reply of a command that was carried out", async () => {
    const peer = await Peer.open(proxy.port);
    proxy.swallow("replies");
    peer.say("INCR counted\r\n");
    await sleep(QUIET_MS);
    expect(await direct.ask("GET", "counted")).toBe("1");
    expect(peer.heard).toBe("");
    proxy.heal();
    await soon(() => peer.closed);
  });

  it("drops a connection that waits, and the server forgets its waiter", async () => {
    const peer = await Peer.open(proxy.port);
    peer.say("BLPOP queue 30\r\n");
    await sleep(QUIET_MS);
    proxy.drop();
    await soon(() => peer.closed);
    await sleep(QUIET_MS);
    expect(await direct.ask("RPUSH", "queue", "x")).toBe(1);
    expect(await direct.ask("LLEN", "queue")).toBe(1);
  });

  it("harms only the connections that were named", async () => {
    const picky = await Proxy.listen({ host: "127.0.0.1", port: server.port }, /subscribe/i);
    const [listener, other] = [await Peer.open(picky.port), await Peer.open(picky.port)];
    listener.say("SUBSCRIBE news\r\n");
    await soon(() => listener.heard.includes("subscribe"));
    picky.swallow("replies");
    await direct.ask("PUBLISH", "news", "item");
    other.say("PING\r\n");
    await soon(() => other.heard.includes("PONG"));
    await sleep(QUIET_MS);
    expect(listener.heard).not.toContain("item");
    picky.heal();
    await soon(() => listener.closed);
    expect(other.closed).toBe(false);
    other.close();
    await picky.close();
  });

  it("delays a push", async () => {
    const peer = await Peer.open(proxy.port);
    peer.say("SUBSCRIBE news\r\n");
    await soon(() => peer.heard.includes("subscribe"));
    proxy.delay(200);
    await direct.ask("PUBLISH", "news", "item");
    await sleep(100);
    expect(peer.heard).not.toContain("item");
    await soon(() => peer.heard.includes("item"));
    proxy.heal();
    peer.close();
  });
});
