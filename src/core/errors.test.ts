// Errors as callers meet them: told apart by class and by code, with the caller in the stack, and as JSON.

import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import * as errors from "./errors.ts";
import {
  type AcquireOptions,
  createLocks,
  DeadlockError,
  type EventMap,
  LockAbortedError,
  LockError,
  LockLostError,
  LockTimeoutError,
  StoreUnavailableError,
} from "../index.ts";
import { refusal, within, world } from "./fixture.ts";

type AnyClass = typeof LockError & (new (message: string, options: object) => LockError);
const classes = Object.entries(errors).filter(
  (entry): entry is [string, AnyClass] => entry[1] !== LockError && Object.hasOwn(entry[1], "is"),
);
const fields = {
  key: "k",
  waitedMs: 1,
  holders: [],
  reason: "gone",
  fence: 7n,
  seen: 8n,
  cycle: [],
  nodes: [],
  setting: "s",
  fix: "f",
};

describe("the brand of an error", () => {
  test("there are eleven classes, each with a code of its own", () => {
    expect(classes).toHaveLength(11);
    expect(new Set(classes.map(([, Class]) => new Class("m", fields).code)).size).toBe(11);
  });

  test.each(classes)("%s is exact, also in another copy of the package", async (name, Class) => {
    // @ts-expect-error: to vite a query makes it another module
    const copy = (await import("./errors.ts?copy")) as Record<string, unknown>;
    const Other = copy[name] as AnyClass;
    expect(Other).not.toBe(Class);
    for (const error of [new Class("m", fields), new Other("m", fields)]) {
      expect(error.name).toBe(name);
      expect(error instanceof LockError && LockError.is(error)).toBe(true);
      for (const [one, Any] of classes) {
        expect(error instanceof Any).toBe(one === name);
        expect(Any.is(error)).toBe(one === name);
        expect((copy[one] as AnyClass).is(error)).toBe(one === name);
      }
    }
  });

  test("a subclass of a user is told apart as usual", () => {
    class Mine extends LockTimeoutError {}
    const options = { waitedMs: 1, holders: [] };
    expect(new Mine("m", options)).toBeInstanceOf(LockTimeoutError);
    expect(new Mine("m", options)).toBeInstanceOf(Mine);
    expect(new LockTimeoutError("m", options)).not.toBeInstanceOf(Mine);
  });

  test.each([null, undefined, 5, "x", {}, new Error("no")])("%s has none", (value) => {
    expect(LockError.is(value)).toBe(false);
    expect(value instanceof LockTimeoutError).toBe(false);
  });
});

describe("the stack of an error", () => {
  /** Named, so that its frame can be found. */
  async function theCaller(work: () => Promise<unknown>): Promise<Error> {
    try {
      await work();
    } catch (error) {
      return error as Error;
    }
    throw new Error("it was not refused");
  }

  test("has the frame of the caller, wherever the error was made", async () => {
    const { system, door, locks, others } = world();
    const mine = locks();
    await others().acquire("busy");
    const abort = new AbortController();
    const cases: Record<string, () => Promise<unknown>> = {
      argument: () => mine.acquire(""),
      timeout: () => mine.acquire("busy", { wait: 50 }),
      "using that timed out": () => mine.using("busy", { wait: 50 }, () => {}),
      abort: () => mine.acquire("busy", { signal: abort.signal }),
      deadlock: () => mine.using("k", () => mine.acquire("k")),
      "one attempt": () => mine.acquire("busy", { wait: 0 }),
    };
    for (const [name, work] of Object.entries(cases)) {
      const error = theCaller(work);
      if (name === "abort") system.after(20, () => abort.abort());
      expect((await within(system, 1_000, error)).stack, name).toMatch(/theCaller/);
    }
    const lease = await mine.acquire("k");
    door.faults.set("owns", "fail");
    door.faults.set("inspect", "fail");
    door.faults.set("release", "fail");
    for (const work of [() => lease.verify(), () => mine.inspect("k"), () => lease.release()]) {
      expect((await within(system, 10_000, theCaller(work))).stack).toMatch(/theCaller/);
    }
  });

  test("has that of a callback whose lease was lost", async () => {
    const { system, door, locks } = world();
    const mine = locks({ ttl: 300 });
    const error = theCaller(() =>
      mine.using("k", async () => {
        door.faults.set("renew", "hang");
        await new Promise<void>((resolve) => void system.after(400, resolve));
      }),
    );
    const lost = await within(system, 2_000, error);
    expect(lost).toBeInstanceOf(LockLostError);
    expect(lost.stack).toMatch(/theCaller/);
  });

  test("is captured only for a call that fails", async () => {
    const { locks } = world();
    const mine = locks();
    const { captureStackTrace } = Error;
    let captured = 0;
    Error.captureStackTrace = (...args) => {
      captured += 1;
      captureStackTrace(...args);
    };
    try {
      for (let i = 0; i < 10; i += 1) await mine.using("k", () => {});
      expect(captured).toBe(0);
      await refusal(mine.acquire(""));
      expect(captured).toBeGreaterThan(0);
    } finally {
      Error.captureStackTrace = captureStackTrace;
    }
  });
});

describe("a callback of a lost lease", () => {
  /** What `using` rejects with when its callback throws after the lease was lost. */
  async function thrown(
    make: (signal: AbortSignal) => unknown,
    once = false,
  ): Promise<[unknown, unknown, unknown]> {
    const { system, door, locks } = world();
    const mine = locks({ ttl: 300 });
    let [reason, error]: unknown[] = [];
    const fn = async ({ signal }: { readonly signal: AbortSignal }): Promise<void> => {
      door.faults.set("renew", "hang");
      await new Promise((resolve) => {
        signal.addEventListener("abort", resolve);
      });
      reason = signal.reason;
      error = make(signal);
      throw error;
    };
    const work: Promise<unknown> = once ? mine.once("k", { atLeast: 10, ttl: 300 }, fn) : mine.using("k", fn);
    return [await refusal(within(system, 5_000, work)), reason, error];
  }

  test.each([false, true])(
    "that throws because of its signal rejects with the loss (once: %s) (P7)",
    async (once) => {
      const abort = (): Error => new DOMException("This operation was aborted", "AbortError");
      const wrapped = (signal: AbortSignal): Error => new Error("request failed", { cause: signal.reason });
      for (const make of [abort, wrapped]) {
        const [error, reason, cause] = await thrown(make, once);
        expect(error).toBeInstanceOf(LockLostError);
        expect(error).toBe(reason);
        expect((error as LockLostError).cause).toBe(cause);
      }
      const [error, reason] = await thrown((signal) => signal.reason, once);
      expect(error).toBe(reason);
      expect((error as LockLostError).cause).toBeUndefined();
    },
  );

  test("that throws for another reason rejects with that, unchanged", async () => {
    const [error, , cause] = await thrown(() => new Error("disk full"));
    expect(error).toBe(cause);
  });

  test("an AbortError of a callback that holds its lease is its own", async () => {
    const { locks } = world();
    const own = new DOMException("mine", "AbortError");
    expect(await refusal(locks().using("k", () => Promise.reject(own)))).toBe(own);
  });

  test("a real timer of Node under lease.signal ends as a loss", async () => {
    const locks = createLocks("memory:abort-error", { ttl: 50 });
    const error = await refusal(
      locks.using("k", { maxHold: 20 }, (lease) => sleep(60_000, undefined, { signal: lease.signal })),
    );
    expect(error).toBeInstanceOf(LockLostError);
    expect((error as LockLostError).reason).toBe("max-hold");
    await locks.close();
  });
});

describe("fences", () => {
  test("are bigint in errors and events, and decimal strings in their JSON", async () => {
    const { system, locks } = world();
    const mine = locks({ ttl: 300 });
    const events: object[] = [];
    for (const name of ["acquired", "timeout", "lost", "released"] as const) {
      mine.on(name, (event: EventMap[typeof name]) => events.push(event));
    }
    const lease = await mine.acquire("k", { maxHold: 100 });
    const timeout = await refusal(within(system, 1_000, mine.acquire("k", { wait: 10 })));
    await within(
      system,
      1_000,
      new Promise((resolve) => {
        lease.signal.addEventListener("abort", resolve);
      }),
    );
    const lost = lease.signal.reason as LockLostError;
    expect((timeout as LockTimeoutError).holders[0]?.fence).toBe(lease.fence);
    expect(lost.fence).toBe(lease.fence);
    expect(events).toMatchObject([
      { fence: lease.fence },
      { holders: [{ fence: lease.fence }] },
      { fence: lease.fence, reason: "max-hold" },
    ]);
    const json = JSON.parse(JSON.stringify([timeout, lost, ...events])) as Record<string, unknown>[];
    expect(json).toMatchObject([
      { name: "LockTimeoutError", code: "ERR_LOCK_TIMEOUT", key: "k", message: timeout.message },
      { code: "ERR_LOCK_LOST", fence: String(lease.fence), reason: "max-hold" },
      { fence: String(lease.fence) },
      { holders: [{ fence: String(lease.fence) }] },
      { fence: String(lease.fence) },
    ]);
  });
});

describe("events of calls that end without a lease", () => {
  function listen(options: AcquireOptions = {}): {
    readonly heard: [string, object][];
    readonly mine: ReturnType<ReturnType<typeof world>["locks"]>;
  } & ReturnType<typeof world> {
    const all = world();
    const mine = all.locks({ label: "me", ...(options.ttl === undefined ? {} : { ttl: options.ttl }) });
    const heard: [string, object][] = [];
    for (const name of ["timeout", "aborted", "unavailable"] as const) {
      mine.on(name, (event: object) => heard.push([name, event]));
    }
    return { ...all, mine, heard };
  }

  test("timeout has the holders and what was waited; tryAcquire and once have none", async () => {
    const { system, mine, heard, others } = listen();
    const lease = await others().acquire("k");
    await refusal(within(system, 1_000, mine.acquire(["k", "l"], { wait: 50 })));
    await refusal(mine.using("k", { wait: 0, label: "other label" }, () => {}));
    expect(await mine.tryAcquire("k")).toBeNull();
    expect(await mine.once("k", { atLeast: 10 }, () => {})).toEqual({ ran: false });
    expect(await mine.once("k", { atLeast: 10, wait: undefined }, () => {})).toEqual({ ran: false });
    expect(heard).toMatchObject([
      [
        "timeout",
        { key: "k", keys: ["k", "l"], label: "me", holders: [{ label: "other", fence: lease.fence }] },
      ],
      ["timeout", { key: "k", label: "other label", waitedMs: 0 }],
    ]);
    expect((heard[0] as [string, { waitedMs: number }])[1].waitedMs).toBeGreaterThanOrEqual(50);
  });

  test("aborted, by the signal and by close", async () => {
    const { system, mine, heard, others } = listen();
    await others().acquire("k");
    const abort = new AbortController();
    const waiting = refusal(mine.acquire("k", { signal: abort.signal }));
    await system.advance(20);
    abort.abort();
    expect(await waiting).toBeInstanceOf(LockAbortedError);
    const closing = refusal(mine.acquire("k"));
    await system.advance(20);
    await within(system, 5_000, mine.close());
    expect(await closing).toBeInstanceOf(LockAbortedError);
    expect(heard.map(([name]) => name)).toEqual(["aborted", "aborted"]);
    expect(heard[0]?.[1]).toMatchObject({ key: "k", keys: ["k"], label: "me" });
  });

  test("unavailable, with and without a key", async () => {
    const { system, mine, heard, door } = listen();
    await mine.using("k", () => {});
    door.faults.set("attempt", "fail");
    door.faults.set("inspect", "fail");
    const asks: (() => Promise<unknown>)[] = [
      () => mine.acquire("k", { wait: 50 }),
      () => mine.tryAcquire("k"),
      () => mine.inspect("k"),
    ];
    for (const ask of asks) {
      expect(await refusal(within(system, 20_000, ask()))).toBeInstanceOf(StoreUnavailableError);
    }
    expect(heard.map(([name]) => name)).toEqual(["unavailable", "unavailable", "unavailable"]);
    expect(heard[0]?.[1]).toMatchObject({ key: "k", keys: ["k"], error: { code: "ERR_STORE_UNAVAILABLE" } });
  });

  test("a deadlock has its own event only", async () => {
    const { mine, heard } = listen();
    await mine.using("k", async () => {
      expect(await refusal(mine.acquire("k"))).toBeInstanceOf(DeadlockError);
    });
    expect(heard).toEqual([]);
  });
});

test("a timeout lists few of many holders, and says how many more there are (P21)", async () => {
  const { system, locks } = world();
  const mine = locks();
  await Promise.all(Array.from({ length: 50 }, () => mine.acquire("s", { limit: 50 })));
  const error = await refusal(within(system, 1_000, mine.acquire("s", { limit: 50, wait: 10 })));
  expect((error as LockTimeoutError).holders).toHaveLength(3);
  expect(error.message).toMatch(/and 47 more/);
  expect(error.message.length).toBeLessThan(500);
});
