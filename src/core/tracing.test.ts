// The channels that observers of the whole process subscribe to: their names, what they carry, and that
// ids are not in it.

import { subscribe, tracingChannel, unsubscribe } from "node:diagnostics_channel";
import { inspect } from "node:util";
import { afterEach, describe, expect, it } from "vitest";
import { createLocks, LockTimeoutError } from "../index.ts";

/** The channels are those of the whole process, and other test files of it may still be at work. */
function isOurs(message: unknown): boolean {
  const { key, keys } = message as { readonly key?: string; readonly keys?: readonly string[] };
  return (key ?? keys?.[0])?.startsWith("traced:") === true;
}

const undo: (() => void)[] = [];
afterEach(() => {
  for (const one of undo.splice(0)) one();
});

function heard(name: string): unknown[] {
  const messages: unknown[] = [];
  const hear = (message: unknown): void => {
    if (isOurs(message)) messages.push(message);
  };
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
  const addTo =
    (list: object[]) =>
    (context: object): void => {
      if (isOurs(context)) list.push(context);
    };
  const subscribers = {
    start: (context: object) => addTo(traces.started)({ ...context }),
    end: () => {},
    asyncStart: () => {},
    asyncEnd: addTo(traces.ended),
    error: addTo(traces.failed),
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
    const lease = await locks.acquire("traced:job", { wait: "2s" });
    const { fence } = lease;
    expect(acquired.started).toEqual([
      { key: "traced:job", keys: ["traced:job"], label: "me", mode: "exclusive", limit: 1, waitMs: 2_000 },
    ]);
    expect(acquired.ended).toHaveLength(1);
    await expect(locks.acquire("traced:job", { wait: 0 })).rejects.toThrow(LockTimeoutError);
    expect(acquired.failed).toMatchObject([
      { key: "traced:job", error: expect.any(LockTimeoutError) as Error },
    ]);
    await lease.release();
    expect(released.started).toEqual([{ key: "traced:job", keys: ["traced:job"], label: "me", fence }]);
    expect(released.ended).toMatchObject([{ result: true }]);
    await locks.close();
  });

  it("trace tryAcquire with no wait, and a renewal by its keys", async () => {
    const [acquired, renewed] = [tracesOf("holdfast:acquire"), tracesOf("holdfast:renew")];
    const locks = createLocks("memory:");
    const lease = await locks.tryAcquire("traced:job");
    await lease?.extend("1m");
    expect(acquired.started).toMatchObject([{ key: "traced:job", waitMs: 0 }]);
    expect(renewed.started).toEqual([{ keys: ["traced:job"] }]);
    await locks.close();
  });

  it("tell of contention, revocation and loss", async () => {
    const [contended, revoked, lost] = [
      heard("holdfast:contended"),
      heard("holdfast:revoked"),
      heard("holdfast:lost"),
    ];
    const locks = createLocks("memory:", { label: "me" });
    const lease = await locks.acquire("traced:job");
    const waiting = locks.acquire("traced:job", { label: "next" });
    await locks.revoke("traced:job", { reason: "it hangs", force: true });
    await (await waiting).release();
    expect(contended).toEqual([{ key: "traced:job", keys: ["traced:job"], label: "next" }]);
    expect(revoked).toEqual([{ key: "traced:job", reason: "it hangs", force: true, by: "me" }]);
    expect(lost).toMatchObject([{ key: "traced:job", label: "me", fence: lease.fence, reason: "revoked" }]);
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
    await Promise.allSettled([both("traced:a", "traced:b"), both("traced:b", "traced:a")]);
    expect(told).toEqual([
      {
        key: expect.stringMatching(/^traced:[ab]$/) as string,
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
    await expect(away.acquire("traced:job", { wait: "1s" })).rejects.toMatchObject({
      code: "ERR_STORE_UNAVAILABLE",
    });
    await expect(away.tryAcquire("traced:job")).rejects.toMatchObject({ code: "ERR_STORE_UNAVAILABLE" });
    expect(acquired.failed).toMatchObject([
      { key: "traced:job", waitMs: 1_000, error: { code: "ERR_STORE_UNAVAILABLE" } },
      { key: "traced:job", waitMs: 0, error: { code: "ERR_STORE_UNAVAILABLE" } },
    ]);
    expect(inspect(acquired, { depth: 8, showHidden: true })).not.toContain("secret");
    const locks = createLocks("memory:");
    await locks.using("traced:mine", async () => {
      await expect(locks.acquire("traced:mine")).rejects.toThrow();
    });
    expect(acquired.failed.at(-1)).toMatchObject({
      key: "traced:mine",
      error: { code: "ERR_LOCK_DEADLOCK" },
    });
    await away.close();
    await locks.close();
  });

  it("and a lease that is printed carry no id: whoever knows it could release", async () => {
    const acquired = tracesOf("holdfast:acquire");
    const locks = createLocks("memory:");
    const lease = await locks.acquire("traced:job", { reentrant: true });
    const joined = await locks.acquire("traced:job", { reentrant: true, within: lease });
    expect(inspect([lease, joined], { depth: 8 })).toContain(String(lease.fence));
    expect(inspect([lease, joined], { depth: 8 })).not.toMatch(/[0-9a-f]{32}/);
    expect(inspect([acquired], { depth: 8, showHidden: true })).not.toMatch(/[0-9a-f]{32}/);
    await locks.close();
  });
});
