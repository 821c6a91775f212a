// Actors in one process: scopes inside each other, siblings, re-entries, and what becomes of them when a
// lease is lost or locks are closed.

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { type AcquireOptions, createLocks, DeadlockError, type Lease, LockLostError } from "../../index.ts";
import { refusal, within, world } from "../fixture.ts";
import type { HoldfastLocks } from "../locks.ts";

test("an acquire of the same key in a sibling's scope waits instead of being refused", async () => {
  const { system, locks } = world();
  const mine = locks();
  const order: string[] = [];
  await within(
    system,
    5_000,
    mine.using("outer", async () => {
      const sibling = (name: string): Promise<void> =>
        mine.using("k", async () => {
          order.push(`${name} in`);
          await new Promise<void>((resolve) => void system.after(50, resolve));
          order.push(`${name} out`);
        });
      const first = sibling("a");
      await system.yield();
      await Promise.all([first, sibling("b")]);
    }),
  );
  expect(order).toEqual(["a in", "a out", "b in", "b out"]);
});

/** Three tasks in one scope ask for "k" one after another, each while the one before it is inside. */
async function siblings(
  options: AcquireOptions,
  ask: (locks: HoldfastLocks, options: AcquireOptions, work: () => Promise<void>) => Promise<unknown>,
): Promise<{ readonly most: number; readonly outcomes: readonly unknown[] }> {
  const { system, locks } = world();
  const mine = locks();
  let [inside, most] = [0, 0];
  const pause = (ms: number): Promise<void> => new Promise((resolve) => void system.after(ms, resolve));
  const work = async (): Promise<void> => {
    inside += 1;
    most = Math.max(most, inside);
    await pause(50);
    inside -= 1;
  };
  const scope = mine.using("outer", () =>
    Promise.all(
      [0, 10, 20].map(async (ms) => {
        await pause(ms);
        return ask(mine, options, work).catch((error: unknown) => error);
      }),
    ),
  );
  return { outcomes: await within(system, 5_000, scope), most };
}

const ways: Record<string, Parameters<typeof siblings>[1]> = {
  acquire: async (locks, options, work) => {
    const lease = await locks.acquire("k", options);
    await work();
    return lease.release();
  },
  using: async (locks, options, work) => {
    await locks.using("k", options, work);
    return true;
  },
};

test.each(["acquire", "using"])(
  "siblings in one scope that %s one key wait for each other (P1, P15)",
  async (way) => {
    const ask = ways[way] as Parameters<typeof siblings>[1];
    expect(await siblings({}, ask)).toEqual({ outcomes: [true, true, true], most: 1 });
    expect(await siblings({ reentrant: true }, ask)).toEqual({ outcomes: [true, true, true], most: 1 });
  },
);

test("tryAcquire of a key that a sibling holds finds it busy, also with reentrant (P1)", async () => {
  const { locks } = world();
  const mine = locks();
  await mine.using("outer", async () => {
    const first = await mine.tryAcquire("k");
    for (const reentrant of [false, true]) expect(await mine.tryAcquire("k", { reentrant })).toBeNull();
    await first?.release();
    expect(await mine.tryAcquire("k")).not.toBeNull();
  });
});

test("a plain acquire is nested in its scope: what that holds is refused, or entered again (P15)", async () => {
  const { locks } = world();
  const mine = locks();
  await mine.using("k", async (outer) => {
    const other = await mine.acquire("other");
    expect(await refusal(mine.acquire("k"))).toBeInstanceOf(DeadlockError);
    expect(await refusal(mine.acquire("k", { within: other }))).toBeInstanceOf(DeadlockError);
    expect(await refusal(mine.acquire("other", { within: other }))).toBeInstanceOf(DeadlockError);
    const again = await mine.acquire("k", { reentrant: true, within: other });
    expect(again.fence).toBe(outer.fence);
    await again.release();
  });
});

test("requests to a server that was started in a scope wait for each other (P15)", async () => {
  const locks = createLocks("memory:http-siblings");
  let [inside, most] = [0, 0];
  const answer = async (): Promise<string> => {
    const lease = await locks.acquire("row", { wait: "60s" });
    inside += 1;
    most = Math.max(most, inside);
    await new Promise((resolve) => setImmediate(resolve));
    inside -= 1;
    await lease.release();
    return "ok";
  };
  const server = createServer((_request, response) => {
    void answer().then(
      (text) => response.end(text),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  const get = async (): Promise<string> => {
    const { port } = server.address() as AddressInfo;
    return (await fetch(`http://127.0.0.1:${port}/`)).text();
  };
  try {
    const answers = await locks.using("leader", async () => {
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
      return Promise.all(Array.from({ length: 20 }, get));
    });
    expect(new Set(answers)).toEqual(new Set(["ok"]));
    expect(most).toBe(1);
  } finally {
    server.closeAllConnections();
    server.close();
    await locks.close();
  }
});

test("a key held in a scope around the inner one is known there; after the inner scope has ended too", async () => {
  const { locks } = world();
  const mine = locks();
  await mine.using("outer", async () => {
    let inner: Lease | null = null;
    await mine.using("inner", async (lease) => {
      inner = lease;
      expect(await refusal(mine.acquire("outer"))).toBeInstanceOf(DeadlockError);
      await lease.release();
      // The inner scope is none any more; the one around it still is.
      expect(await refusal(mine.acquire("outer"))).toBeInstanceOf(DeadlockError);
      expect(await mine.using("inner", () => "free again")).toBe("free again");
    });
    expect(await mine.tryAcquire("outer", { within: inner as unknown as Lease })).toBeNull();
  });
});

test("a re-entry is lost with the section: signal, held and using all say so (P6)", async () => {
  const { system, door, locks } = world();
  const mine = locks({ ttl: 300 });
  const seen: unknown[] = [];
  const running = mine.using("k", async (outer) => {
    door.faults.set("renew", "hang");
    const error = await refusal(
      mine.using("k", { reentrant: true }, async (lease) => {
        lease.signal.addEventListener("abort", () => seen.push(lease.signal.reason));
        await new Promise<void>((resolve) => void system.after(400, resolve));
        expect(lease.held).toBe(false);
        expect(() => lease.assertHeld()).toThrow(LockLostError);
        return "anyway";
      }),
    );
    expect(error).toBeInstanceOf(LockLostError);
    expect(outer.held).toBe(false);
    throw error;
  });
  const error = await refusal(within(system, 2_000, running));
  expect(seen).toEqual([error]);
});

test("several keys are entered again when scopes around hold all of them, each with its fence", async () => {
  const { locks } = world();
  const mine = locks();
  await mine.using(["a", "b"], async (ab) => {
    await mine.using("c", async (c) => {
      await mine.using(["c", "a"], { reentrant: true }, (lease) => {
        expect(lease.keys).toEqual(["a", "c"]);
        expect([lease.fenceOf("a"), lease.fenceOf("c")]).toEqual([ab.fenceOf("a"), c.fence]);
        expect(() => lease.fenceOf("b")).toThrow(/key must be one of "a", "c", got "b"/);
        expect(() => lease.fence).toThrow(/fenceOf/);
        expect(lease.signal.aborted).toBe(false);
        expect(lease.toJSON()).toMatchObject({ keys: ["a", "c"], held: true, mode: "exclusive" });
      });
      expect(ab.held && c.held).toBe(true);
    });
  });
  expect(await mine.inspect("a")).toBeNull();
});

test("a lease let go of under a re-entry is not handed on before the re-entry has let go (P1)", async () => {
  const { system, locks } = world();
  const mine = locks();
  const outer = await mine.acquire("k");
  const inner = await mine.acquire("k", { reentrant: true, within: outer });
  const next = mine.acquire("k");
  expect(await outer.release()).toBe(true);
  expect(await outer.release()).toBe(true);
  await system.advance(200);
  expect(inner.held).toBe(true);
  let granted = false;
  void next.then(() => {
    granted = true;
  });
  await system.settle();
  expect(granted).toBe(false);
  expect(await inner.release()).toBe(true);
  expect(await inner.release()).toBe(true);
  const lease = await within(system, 1_000, next);
  expect(lease.fence).toBeGreaterThan(inner.fence);
});

test("close ends a section whoever is inside", async () => {
  const { system, locks, others } = world();
  const mine = locks();
  const outer = await mine.acquire("k");
  const inner = await mine.acquire("k", { reentrant: true, within: outer });
  await outer.release();
  const closing = mine.close();
  expect(inner.signal.reason).toMatchObject({ reason: "closed" });
  await within(system, 1_100, closing);
  expect(inner.held).toBe(false);
  expect(await others().tryAcquire("k")).not.toBeNull();
});

test("once never enters again: what it would keep is another's", async () => {
  const { locks } = world();
  const mine = locks();
  await mine.using("k", async () => {
    const error = await refusal(mine.once("k", { atLeast: 1_000, reentrant: true }, () => {}));
    expect(error).toBeInstanceOf(DeadlockError);
  });
});

test("keys of different locks have nothing to do with each other", async () => {
  const { locks, others } = world();
  const [mine, elsewhere] = [locks(), others({ namespace: "elsewhere" })];
  await mine.using("k", async () => {
    expect(await elsewhere.using("k", () => "fine")).toBe("fine");
  });
});
