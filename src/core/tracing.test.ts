// The channels that observers of the whole process subscribe to: their names, what they carry, and that ids are not in it.

import { subscribe, tracingChannel, unsubscribe } from "node:diagnostics_channel";
import { inspect } from "node:util";
import { afterEach, describe, expect, it } from "vitest";
import { createLocks, LockTimeoutError } from "../index.ts";

const undo: (() => void)[] = [];
afterEach(() => {
  for (const one of undo.splice(0)) one();
});

function heard(name: string): unknown[] {
  const messages: unknown[] = [];
  const hear = (message: unknown): void => void messages.push(message);
  subscribe(name, hear);
  undo.push(() => unsubscribe(name, hear));
  return messages;
}

interface Traces {
  readonly started: object[];
  readonly ended: object[];
  readonly failed: object[];
}

function tracesOf(name: string): Traces {
  const traces: Traces = { started: [], ended: [], failed: [] };
  const subscribers = {
    start: (context: object) => void traces.started.push({ ...context }),
    end: () => {},
    asyncStart: () => {},
    asyncEnd: (context: object) => void traces.ended.push(context),
    error: (context: object) => void traces.failed.push(context),
  };
  const tracing = tracingChannel(name);
  tracing.subscribe(subscribers);
  undo.push(() => tracing.unsubscribe(subscribers));
  return traces;
}

describe("the channels of a process", () => {
  it("trace acquire and release, with their outcome", async () => {
    const [acquired, released] = [tracesOf("holdfast:acquire"), tracesOf("holdfast:release")];
    const locks = createLocks("memory:", { label: "me" });
    const lease = await locks.acquire("job", { wait: "2s" });
    const { fence } = lease;
    expect(acquired.started).toEqual([
      { key: "job", keys: ["job"], label: "me", mode: "exclusive", limit: 1, waitMs: 2_000 },
    ]);
    expect(acquired.ended).toHaveLength(1);
    await expect(locks.acquire("job", { wait: 0 })).rejects.toThrow(LockTimeoutError);
    expect(acquired.failed).toMatchObject([{ key: "job", error: expect.any(LockTimeoutError) as Error }]);
    await lease.release();
    expect(released.started).toEqual([{ key: "job", keys: ["job"], label: "me", fence }]);
    expect(released.ended).toMatchObject([{ result: true }]);
    await locks.close();
  });

  it("trace tryAcquire with no wait, and a renewal by its keys", async () => {
    const [acquired, renewed] = [tracesOf("holdfast:acquire"), tracesOf("holdfast:renew")];
    const locks = createLocks("memory:");
    const lease = await locks.tryAcquire("job");
    await lease?.extend("1m");
    expect(acquired.started).toMatchObject([{ key: "job", waitMs: 0 }]);
    expect(renewed.started).toEqual([{ keys: ["job"] }]);
    await locks.close();
  });

  it("tell of contention, revocation and loss", async () => {
    const [contended, revoked, lost] = [
      heard("holdfast:contended"),
      heard("holdfast:revoked"),
      heard("holdfast:lost"),
    ];
    const locks = createLocks("memory:", { label: "me" });
    const lease = await locks.acquire("job");
    const waiting = locks.acquire("job", { label: "next" });
    await locks.revoke("job", { reason: "it hangs", force: true });
    await (await waiting).release();
    expect(contended).toEqual([{ key: "job", keys: ["job"], label: "next" }]);
    expect(revoked).toEqual([{ key: "job", reason: "it hangs", force: true, by: "me" }]);
    expect(lost).toMatchObject([{ key: "job", label: "me", fence: lease.fence, reason: "revoked" }]);
    await locks.close();
  });

  it("tell of a circle, with everybody in it", async () => {
    const told = heard("holdfast:deadlock");
    const locks = createLocks("memory:", { label: "me", deadlock: "20ms" });
    const inside = new Set<string>();
    const both = (first: string, second: string): Promise<void> =>
      locks.using(first, async () => {
        inside.add(first);
        await expect.poll(() => inside.size).toBe(2);
        await locks.using(second, () => {});
      });
    await Promise.allSettled([both("a", "b"), both("b", "a")]);
    expect(told).toEqual([
      {
        key: expect.stringMatching(/^[ab]$/) as string,
        keys: [expect.any(String)],
        label: "me",
        waitedMs: expect.any(Number) as number,
        cycle: [
          expect.objectContaining({ label: "me", holds: expect.any(String) as string }),
          expect.objectContaining({ label: "me", waitsFor: expect.any(String) as string }),
        ],
      },
    ]);
    await locks.close();
  });

  it("trace an acquire from the call on: a store that is not there, an actor that would wait for itself", async () => {
    const acquired = tracesOf("holdfast:acquire");
    const away = createLocks("redis://me:secret@127.0.0.1:1");
    await expect(away.acquire("job", { wait: "1s" })).rejects.toMatchObject({
      code: "ERR_STORE_UNAVAILABLE",
    });
    await expect(away.tryAcquire("job")).rejects.toMatchObject({ code: "ERR_STORE_UNAVAILABLE" });
    expect(acquired.failed).toMatchObject([
      { key: "job", waitMs: 1_000, error: { code: "ERR_STORE_UNAVAILABLE" } },
      { key: "job", waitMs: 0, error: { code: "ERR_STORE_UNAVAILABLE" } },
    ]);
    expect(inspect(acquired, { depth: 8, showHidden: true })).not.toContain("secret");
    const locks = createLocks("memory:");
    await locks.using("mine", async () => {
      await expect(locks.acquire("mine")).rejects.toThrow();
    });
    expect(acquired.failed.at(-1)).toMatchObject({ key: "mine", error: { code: "ERR_LOCK_DEADLOCK" } });
    await away.close();
    await locks.close();
  });

  it("and a lease that is printed carry no id: whoever knows it could release", async () => {
    const acquired = tracesOf("holdfast:acquire");
    const locks = createLocks("memory:");
    const lease = await locks.acquire("job", { reentrant: true });
    const joined = await locks.acquire("job", { reentrant: true, within: lease });
    expect(inspect([lease, joined], { depth: 8 })).toContain(String(lease.fence));
    expect(inspect([lease, joined], { depth: 8 })).not.toMatch(/[0-9a-f]{32}/);
    expect(inspect([acquired], { depth: 8, showHidden: true })).not.toMatch(/[0-9a-f]{32}/);
    await locks.close();
  });
});
