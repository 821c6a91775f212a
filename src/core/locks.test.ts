import { expect, test } from "vitest";
import {
  DeadlockError,
  InvalidArgumentError,
  LockError,
  LockLostError,
  StaleFenceError,
  UnsupportedError,
} from "./errors.ts";
import { HoldfastLocks } from "./locks.ts";
import { readLocksOptions } from "./options.ts";
import type { Store } from "./store.ts";
import { createLocks } from "../index.ts";
import { memory } from "../stores/memory/index.ts";
import { refusal, within, world } from "./fixture.ts";

test("using returns what the callback returned and has released by then", async () => {
  const { locks, others } = world();
  expect(await locks().using("k", (lease) => Promise.resolve(lease.key.length))).toBe(1);
  expect(await others().inspect("k")).toBeNull();
});

test("an error of the callback comes through unchanged, also when the release fails", async () => {
  const { system, door, locks } = world();
  const mine = locks();
  const mistake = new Error("mine");
  door.faults.set("release", "fail");
  const thrown = mine.using("k", () => {
    throw mistake;
  });
  expect(await refusal(within(system, 5_000, thrown))).toBe(mistake);
});

test("a failing release does not hide the result", async () => {
  const { system, door, locks } = world();
  door.faults.set("release", "hang");
  expect(
    await within(
      system,
      5_000,
      locks().using("k", () => 7),
    ),
  ).toBe(7);
});

test("a lease lost while the callback ran rejects with the signal's own reason, carrying the result", async () => {
  const { system, locks } = world();
  let reason: unknown;
  const running = locks().using("k", { ttl: "1s" }, async (lease) => {
    lease.signal.addEventListener("abort", () => {
      reason = lease.signal.reason;
    });
    await system.yield();
    system.stall(5_000);
    return "done anyway";
  });
  const error = await refusal(within(system, 1_000, running));
  expect(error).toBeInstanceOf(LockLostError);
  expect((error as LockLostError).result).toBe("done anyway");
  await system.advance(10);
  expect(reason).toBe(error);
});

test("a second acquire by the actor that holds the key rejects at once; tryAcquire says null (P15)", async () => {
  const { locks } = world();
  const mine = locks();
  await mine.using("k", async () => {
    const error = await refusal(mine.acquire("k"));
    expect(error).toBeInstanceOf(DeadlockError);
    expect((error as DeadlockError).cycle).toMatchObject([{ holds: "k", waitsFor: "k" }]);
    expect(await mine.tryAcquire("k")).toBeNull();
    await mine.using("other", async () => {
      expect(await refusal(mine.acquire(["a", "k"]))).toBeInstanceOf(DeadlockError);
    });
  });
});

test("within names the actor of a bare lease; without it a bare acquire is an actor of its own", async () => {
  const { system, locks } = world();
  const mine = locks();
  const lease = await mine.acquire("k");
  expect(await refusal(mine.acquire("k", { within: lease }))).toBeInstanceOf(DeadlockError);
  const other = mine.acquire("k");
  await lease.release();
  expect((await within(system, 1_000, other)).held).toBe(true);
});

test("a task that outlived the scope it was started in is an actor of its own", async () => {
  const { system, locks } = world();
  const mine = locks();
  let go: () => void = () => {};
  const gate = new Promise<void>((resolve) => {
    go = resolve;
  });
  let detached: Promise<unknown> = Promise.resolve();
  await mine.using("k", () => {
    detached = gate.then(() => mine.using("k", () => "fine"));
  });
  go();
  expect(await within(system, 1_000, detached)).toBe("fine");
});

test("several keys: all or none, in one order whatever the caller's (P9)", async () => {
  const { system, locks, others } = world();
  const theirs = others();
  const b = await theirs.acquire("b");
  const mine = locks();
  const error = await refusal(within(system, 1_000, mine.acquire(["b", "a"], { wait: 200 })));
  expect(error).toMatchObject({ code: "ERR_LOCK_TIMEOUT" });
  expect(await theirs.inspect("a")).toBeNull();
  const both = mine.acquire(["b", "a"]);
  await system.advance(50);
  await b.release();
  expect((await within(system, 500, both)).keys).toEqual(["a", "b"]);
});

test("several keys on a store that takes one at a time: the first is given back when the second fails (P9)", async () => {
  const { system, locks, others } = world({ kinds: ["exclusive"] });
  const theirs = others();
  const b = await theirs.acquire("b");
  const mine = locks();
  expect(await refusal(within(system, 1_000, mine.acquire(["b", "a"], { wait: 200 })))).toMatchObject({
    key: "b",
  });
  expect(await mine.tryAcquire(["a", "b"])).toBeNull();
  expect(await theirs.inspect("a")).toBeNull();
  await b.release();
  const lease = await within(system, 1_000, mine.acquire(["b", "a"]));
  expect(lease.keys).toEqual(["a", "b"]);
  expect(await lease.release()).toBe(true);
  expect(await theirs.inspect("a")).toBeNull();
  expect(await theirs.inspect("b")).toBeNull();
});

test("losing one of several keys loses them all, and the rest is given back", async () => {
  const { system, locks, others } = world({ kinds: ["exclusive"] });
  const lease = await locks().acquire(["a", "b"]);
  await others().revoke("a", { reason: "stuck" });
  await system.settle();
  expect(lease.held).toBe(false);
  await lease.release();
  await system.advance(10);
  expect(await others().inspect("b")).toBeNull();
});

test("what a store does not declare is refused by name", async () => {
  const { locks } = world({ kinds: ["exclusive"] });
  expect(await refusal(locks().acquire("k", { mode: "shared" }))).toBeInstanceOf(UnsupportedError);
  expect(await refusal(locks().acquire("k", { limit: 2 }))).toBeInstanceOf(UnsupportedError);
  expect(await refusal(locks().once("k", { atLeast: "1s" }, () => 1))).toBeInstanceOf(UnsupportedError);
});

test("revoke tells the holder, the key is free once it has let go, and the fence rises", async () => {
  const { system, locks, others } = world();
  const mine = locks();
  const lease = await mine.acquire("k");
  const theirs = others();
  const audit: unknown[] = [];
  theirs.on("revoked", (event) => audit.push(event));
  expect(await theirs.revoke("k", { reason: "stuck since noon", fence: lease.fence })).toBe(true);
  await system.advance(10);
  expect(lease.held).toBe(false);
  expect(lease.signal.reason).toMatchObject({ reason: "revoked" });
  expect(String(lease.signal.reason)).toMatch(/stuck since noon/);
  expect(audit).toEqual([{ key: "k", reason: "stuck since noon", force: false, by: "other" }]);
  await lease.release();
  expect((await within(system, 100, theirs.acquire("k"))).fence).toBeGreaterThan(lease.fence);
});

test("revoke with another fence touches nobody; a free key is false", async () => {
  const { locks, others } = world();
  const lease = await locks().acquire("k");
  expect(await refusal(others().revoke("k", { reason: "x", fence: 5n }))).toBeInstanceOf(StaleFenceError);
  expect(lease.held).toBe(true);
  expect(await others().revoke("free", { reason: "x" })).toBe(false);
});

test("once runs on one of many and keeps the key closed for at least so long", async () => {
  const { system, locks, others } = world();
  const ran: string[] = [];
  const first = locks().once("k", { atLeast: "10s" }, () => ran.push("first"));
  expect(await within(system, 100, first)).toEqual({ ran: true, result: 1 });
  expect(await others().once("k", { atLeast: "10s" }, () => ran.push("second"))).toEqual({ ran: false });
  await system.advance(10_000);
  expect(await others().once("k", { atLeast: "10s" }, () => ran.push("third"))).toMatchObject({ ran: true });
  expect(ran).toEqual(["first", "third"]);
});

test("a throwing listener hurts nothing and is reported; `off` takes away its own", async () => {
  const { system, locks } = world();
  const mine = locks();
  const seen: string[] = [];
  mine.on("acquired", () => {
    throw new Error("listener");
  });
  const off = mine.on("acquired", (event) => seen.push(event.key));
  await mine.using("k", () => {});
  off();
  await mine.using("k2", () => {});
  expect(seen).toEqual(["k"]);
  expect(system.warnings).toHaveLength(2);
  expect(() => mine.on("error" as "lost", () => {})).toThrow(InvalidArgumentError);
});

test("events carry fences as decimal strings and never an id", async () => {
  const { system, door, locks, others } = world();
  const mine = locks();
  const seen: [string, unknown][] = [];
  for (const name of ["waiting", "acquired", "renewed", "endangered", "lost", "released"] as const) {
    mine.on(name, (event) => seen.push([name, event]));
  }
  const theirs = await others().acquire("k");
  const waiting = mine.acquire("k", { ttl: "1s" });
  await system.advance(10);
  await theirs.release();
  const lease = await within(system, 100, waiting);
  await system.advance(400);
  door.faults.set("renew", "fail");
  await system.advance(1_000);
  await mine.using("other", () => {});
  expect(new Set(seen.map(([name]) => name))).toEqual(
    new Set(["waiting", "acquired", "renewed", "endangered", "lost", "released"]),
  );
  expect(JSON.stringify(seen)).toContain(`"fence":"${lease.fence}"`);
  expect(JSON.stringify(seen)).not.toMatch(/[0-9a-f]{32}/);
});

test("LockError.is knows an error of another copy of the package", async () => {
  const { locks } = world();
  const error = await refusal(locks().acquire(""));
  expect(LockError.is(error)).toBe(true);
  const foreign = Object.assign(new Error("x"), { [Symbol.for("holdfast.LockError")]: true });
  expect(LockError.is(foreign)).toBe(true);
  expect(LockError.is(new Error("x"))).toBe(false);
});

test("a process that does nothing but lock and unlock still lets its timers run", async () => {
  const locks = createLocks(memory());
  let rang = false;
  setTimeout(() => {
    rang = true;
  }, 20);
  const since = performance.now();
  while (!rang && performance.now() - since < 5_000) await locks.using("k", () => {});
  expect(rang).toBe(true);
  await locks.close();
});

test("on a loss the holder is told before the store, so that no successor starts beside it", async () => {
  const { system, door, locks } = world();
  const mine = locks();
  const lease = await mine.acquire("k", { ttl: "1s" });
  door.faults.set("renew", "hang");
  const abandonsWhenTold: number[] = [];
  lease.signal.addEventListener("abort", () => abandonsWhenTold.push(door.count("abandon")));
  mine.on("lost", () => abandonsWhenTold.push(door.count("abandon")));
  await system.advance(1_000);
  expect(abandonsWhenTold).toEqual([0, 0]);
  expect(door.count("abandon")).toBe(1);
});

test("a store that opens too late is an error for who waited, and is closed again (P13, P16)", async () => {
  const { system, store } = world();
  let closed = 0;
  const slow: Store = {
    ...store,
    open: async (env) => {
      await new Promise<void>((resolve) => system.after(8_000, resolve));
      const open = await store.open(env);
      const close = open.close.bind(open);
      open.close = () => {
        closed += 1;
        return close();
      };
      return open;
    },
  };
  const locks = new HoldfastLocks(slow, system, readLocksOptions({}, "me"));
  const error = await refusal(within(system, 5_000, locks.acquire("k", { wait: "4s" })));
  expect(error).toMatchObject({ code: "ERR_STORE_UNAVAILABLE" });
  expect(closed).toBe(0);
  await system.advance(6_000);
  expect(closed).toBe(1);
});

test("a listing of a store that does not answer ends with a named error (P13)", async () => {
  const { system, store } = world();
  const hung: Store = {
    ...store,
    open: async (env) => {
      const open = await store.open(env);
      open.list = async function* () {
        await new Promise<void>(() => {});
        yield* [];
      };
      return open;
    },
  };
  const locks = new HoldfastLocks(hung, system, readLocksOptions({}, "me"));
  const listed = async (): Promise<number> => {
    let count = 0;
    for await (const _info of locks.list()) count += 1;
    return count;
  };
  expect(await refusal(within(system, 10_000, listed()))).toMatchObject({ code: "ERR_STORE_UNAVAILABLE" });
});

test("a wait that is aborted while the store opens ends at once, and one that was aborted meanwhile is never begun (P13)", async () => {
  const { system, store, others } = world();
  let open = (): void => {};
  const slow: Store = {
    ...store,
    open: async (env) => {
      await new Promise<void>((resolve) => (open = resolve));
      return store.open(env);
    },
  };
  const locks = new HoldfastLocks(slow, system, readLocksOptions({}, system.processLabel));
  const taken = await others().acquire("k");
  const controller = new AbortController();
  const waiting = refusal(locks.acquire("k", { wait: "20s", signal: controller.signal }));
  await system.settle();
  controller.abort();
  expect(await within(system, 1, waiting)).toMatchObject({ code: "ERR_LOCK_ABORTED" });
  open();
  await system.settle();
  expect((await others().inspect("k"))?.waiters).toEqual([]);
  await taken.release();
});

test("reading a client from a slow disk does not count as opening, and what fails there is told by the opening", async () => {
  const { system, store } = world();
  const slow: Store = {
    ...store,
    load: () => new Promise<void>((resolve) => system.after(20_000, resolve)),
  };
  const locks = new HoldfastLocks(slow, system, readLocksOptions({}, "me"));
  expect((await within(system, 21_000, locks.acquire("k"))).held).toBe(true);
  const missing: Store = {
    ...store,
    load: () => Promise.reject(new Error("no such package")),
    open: () => Promise.reject(new Error("npm i it")),
  };
  const others = new HoldfastLocks(missing, system, readLocksOptions({}, "me"));
  expect(await refusal(others.tryAcquire("k"))).toMatchObject({
    message: expect.stringContaining("npm i it") as string,
  });
});
