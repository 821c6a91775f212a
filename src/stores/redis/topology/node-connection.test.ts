import { describe, expect, it } from "vitest";
import { NEVER_ABORTED } from "../../shared/never-aborted.ts";
import type { Reply } from "../client/port.ts";
import type { Connection } from "./connection.ts";
import { type ConnectionSystem, NodeConnection, NotSentError } from "./node-connection.ts";
import { Subscription } from "./subscription.ts";

/** A clock that only `advance` moves. */
class TestSystem implements ConnectionSystem {
  nowMs = 0;
  readonly #timers = new Map<() => void, number>();

  monoMs(): number {
    return this.nowMs;
  }

  random(): number {
    return 0.5;
  }

  yield(): Promise<void> {
    return Promise.resolve();
  }

  after(ms: number, fn: () => void): () => void {
    this.#timers.set(fn, this.nowMs + ms);
    return () => this.#timers.delete(fn);
  }

  get timers(): number {
    return this.#timers.size;
  }

  async advance(ms: number): Promise<void> {
    this.nowMs += ms;
    for (const [fn, atMs] of this.#timers) {
      if (atMs > this.nowMs) continue;
      this.#timers.delete(fn);
      fn();
    }
    await new Promise(setImmediate);
  }
}

class TestConnection implements Connection {
  isOpen = true;
  readonly channels: string[] = [];
  readonly #endListeners: (() => void)[] = [];
  reply: () => Promise<Reply> = () => Promise.resolve("OK");

  send(): Promise<Reply> {
    return this.reply();
  }

  subscribe(channel: string): Promise<void> {
    this.channels.push(channel);
    return Promise.resolve();
  }

  onEnd(listener: () => void): void {
    this.#endListeners.push(listener);
  }

  close(): void {
    this.isOpen = false;
    for (const listener of this.#endListeners.splice(0)) listener();
  }
}

const call = { signal: NEVER_ABORTED, timeoutMs: 1_000 };
const never = (): Promise<never> => new Promise(() => {});

function setUp(connect?: () => Promise<Connection>): {
  system: TestSystem;
  made: TestConnection[];
  node: NodeConnection;
  drops: () => number;
} {
  const [system, made] = [new TestSystem(), [] as TestConnection[]];
  let drops = 0;
  const make = (): Promise<Connection> => {
    const connection = new TestConnection();
    made.push(connection);
    return Promise.resolve(connection);
  };
  const onDrop = (): void => void (drops += 1);
  const node = new NodeConnection("n", connect ?? make, system, { onDrop });
  return { system, made, node, drops: () => drops };
}

describe("the connection to a node", () => {
  it("is made once for all callers that need it", async () => {
    const { node, made } = setUp();
    expect(await Promise.all([1, 2, 3].map(() => node.send(["PING"], call)))).toEqual(["OK", "OK", "OK"]);
    expect(made).toHaveLength(1);
  });

  it("is made again after it ended, at a random time, unless that time is over", async () => {
    const { node, made, system } = setUp();
    await node.send(["PING"], call);
    made[0]?.close();
    const reply = node.send(["PING"], call);
    await system.advance(49);
    expect(made).toHaveLength(1);
    await system.advance(1);
    expect(await reply).toBe("OK");
    made[1]?.close();
    await system.advance(1_000);
    expect(await node.send(["PING"], call)).toBe("OK");
    expect(made).toHaveLength(3);
  });

  it("is tried again at a random time after an attempt that failed", async () => {
    let attempts = 0;
    const { node, system } = setUp(() => {
      attempts += 1;
      return Promise.reject(new Error("ECONNREFUSED"));
    });
    await expect(node.send(["PING"], call)).rejects.toThrow(NotSentError);
    expect(node.failure?.message).toBe("ECONNREFUSED");
    const [one, two] = [node.send(["PING"], call), node.send(["PING"], call)];
    await system.advance(10);
    expect(attempts).toBe(1);
    await Promise.all([
      expect(one).rejects.toThrow(NotSentError),
      expect(two).rejects.toThrow(),
      system.advance(40),
    ]);
    expect(attempts).toBe(2);
  });

  it("is closed after two calls in a row without any answer (P13)", async () => {
    const { node, made, system, drops } = setUp();
    await node.send(["PING"], call);
    (made[0] as TestConnection).reply = never;
    for (let calls = 0; calls < 2; calls += 1) {
      void node.send(["PING"], call);
      await system.advance(1_000);
    }
    const reply = node.send(["PING"], call);
    await system.advance(0);
    expect(made[0]?.isOpen).toBe(false);
    expect(drops()).toBe(1);
    await system.advance(50);
    expect(await reply).toBe("OK");
  });

  it("is closed when its node is a replica by now", async () => {
    const { node, made, drops } = setUp();
    await node.connect(call);
    (made[0] as TestConnection).reply = () => Promise.reject(new Error("READONLY You can't write"));
    await expect(node.send(["SET"], call)).rejects.toThrow("READONLY");
    expect(made[0]?.isOpen).toBe(false);
    expect(drops()).toBe(1);
  });

  it("that is closed leaves no timer, and is not made again (P16)", async () => {
    const { node, made, system } = setUp();
    await node.connect(call);
    made[0]?.close();
    const reply = expect(node.send(["PING"], call)).rejects.toThrow(NotSentError);
    node.close();
    await reply;
    expect(system.timers).toBe(0);
    await expect(node.send(["PING"], call)).rejects.toThrow("is closed");
    expect(made.filter(({ isOpen }) => isOpen)).toEqual([]);
  });
});

describe("a subscription", () => {
  it("reconnects by itself when its connection ends, and moves when it is told to", async () => {
    const [system, made] = [new TestSystem(), [] as TestConnection[]];
    const connect = (): Promise<Connection> => {
      const connection = new TestConnection();
      made.push(connection);
      return Promise.resolve(connection);
    };
    const subscription = new Subscription(connect, "news", () => {}, system);
    await subscription.start();
    made[0]?.close();
    await system.advance(50);
    expect(made[1]?.channels).toEqual(["news"]);
    subscription.move();
    expect(made[1]?.isOpen).toBe(false);
    await system.advance(50);
    expect(made[2]?.channels).toEqual(["news"]);
    subscription.close();
    expect(made[2]?.isOpen).toBe(false);
    await system.advance(50);
    expect(made).toHaveLength(3);
  });

  it("that is moved while it connects starts on the next connection", async () => {
    const system = new TestSystem();
    const opened: TestConnection[] = [];
    let finishFirst = (): void => {};
    const connect = async (): Promise<Connection> => {
      const connection = new TestConnection();
      opened.push(connection);
      if (opened.length === 1) await new Promise<void>((resolve) => (finishFirst = resolve));
      return connection;
    };
    const subscription = new Subscription(connect, "news", () => {}, system);
    const started = subscription.start();
    await new Promise(setImmediate);
    subscription.move();
    finishFirst();
    await system.advance(1_000);
    await started;
    expect(opened.map(({ isOpen }) => isOpen)).toEqual([false, true]);
    expect(opened[1]?.channels).toEqual(["news"]);
    subscription.close();
  });
});
