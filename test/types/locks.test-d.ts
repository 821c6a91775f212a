// The types of Locks and its leases. The compiler checks this file in `npm run check`; nothing runs it. A
// call under `@ts-expect-error` must not compile: if a type becomes looser, the compiler reports the
// directive as unused.

import {
  type AcquireOptions,
  createLocks,
  type Duration,
  duration,
  type Election,
  type EventMap,
  type Finding,
  type Guarantees,
  type HolderSummary,
  type Lease,
  type LockErrorCode,
  type LockInfo,
  type Locks,
  type LossReason,
  type MultiLease,
  type OnceResult,
  type Store,
  type TransactionHandle,
  type TransactionLease,
  type TransactionLocks,
} from "holdfast";
import { expectTypeOf } from "vitest";

declare const locks: Locks;
declare const store: Store;
declare const lease: Lease;
declare const tx: TransactionHandle;

export function durations(): void {
  expectTypeOf<250>().toExtend<Duration>();
  expectTypeOf<"250ms" | "30s" | "1.5m" | "1h">().toExtend<Duration>();
  expectTypeOf<string>().not.toExtend<Duration>();
  expectTypeOf<"30">().not.toExtend<Duration>();
  expectTypeOf<"30d">().not.toExtend<Duration>();
  expectTypeOf<"soon">().not.toExtend<Duration>();
  expectTypeOf<bigint | boolean | null | Date>().not.toExtend<Duration>();
  expectTypeOf(duration).parameters.toEqualTypeOf<[text: string]>();
  expectTypeOf(duration).returns.toEqualTypeOf<number>();
  // @ts-expect-error: a text from the environment is parsed with duration() first
  void locks.acquire("a", { ttl: process.env["TTL"] ?? "30s" });
  // @ts-expect-error: duration() parses text only
  duration(30);
}

export function create(): void {
  expectTypeOf(createLocks()).toEqualTypeOf<Locks>();
  createLocks("local:", { ttl: "10s", allow: ["eviction"], deadlock: false, grace: 100, handoff: 0 });
  createLocks(store);
  // @ts-expect-error: neither a URL nor a store
  createLocks(5);
  // @ts-expect-error: not a store
  createLocks({ name: "mine" });
  // @ts-expect-error: null is no store
  createLocks(null);
  // @ts-expect-error: an unset variable is no store
  createLocks(process.env["REDIS_URL"]);
  // @ts-expect-error: unknown option
  createLocks("local:", { timeout: "10s" });
  // @ts-expect-error: unknown name
  createLocks("local:", { allow: ["everything"] });
  // @ts-expect-error: only false turns the deadlock detection off
  createLocks("local:", { deadlock: true });
}

export async function acquire(): Promise<void> {
  expectTypeOf(await locks.acquire("a")).toEqualTypeOf<Lease>();
  const several = await locks.acquire(["a", "b"], { ttl: "30s", wait: Infinity });
  expectTypeOf(several).toEqualTypeOf<MultiLease>();
  expectTypeOf(await locks.acquire(["a"])).toEqualTypeOf<MultiLease>();
  expectTypeOf(await locks.tryAcquire(["a", "b"])).toEqualTypeOf<MultiLease | null>();
  expectTypeOf(several.fenceOf("a")).toEqualTypeOf<bigint>();
  // @ts-expect-error: each key has a fence of its own
  void several.fence;
  await locks.using(["a", "b"], (each) => expectTypeOf(each).toEqualTypeOf<MultiLease>());
  await locks.using(["a", "b"], { within: several }, (each) =>
    expectTypeOf(each).toEqualTypeOf<MultiLease>(),
  );
  await locks.once(["a", "b"], { atLeast: "1m" }, (each) => expectTypeOf(each).toEqualTypeOf<MultiLease>());
  // @ts-expect-error: a callback that needs the one fence does not get it for several keys
  await locks.using(["a", "b"], (each: Lease) => each.fence);
  expectTypeOf(await locks.tryAcquire("a")).toEqualTypeOf<Lease | null>();
  await using disposed = await locks.acquire("a", { within: lease, signal: lease.signal });
  expectTypeOf(disposed).toEqualTypeOf<Lease>();
  // @ts-expect-error: a key is a string
  await locks.acquire(42);
  // @ts-expect-error: a key is required
  await locks.acquire();
  // @ts-expect-error: unknown option
  await locks.acquire("a", { timeout: 5 });
  // @ts-expect-error: misspelt option
  await locks.acquire("a", { TTL: 5 });
  // @ts-expect-error: unknown mode
  await locks.acquire("a", { mode: "read" });
  // @ts-expect-error: a number, not a text
  await locks.acquire("a", { limit: "3" });
  // @ts-expect-error: an AbortSignal, not its controller
  await locks.acquire("a", { signal: new AbortController() });
  // @ts-expect-error: a lease, not its key
  await locks.acquire("a", { within: "b" });
  // @ts-expect-error: atLeast is an option of once()
  await locks.acquire("a", { atLeast: "1m" });
}

export async function using(): Promise<void> {
  expectTypeOf(await locks.using("a", () => 5)).toEqualTypeOf<number>();
  expectTypeOf(await locks.using(["a", "b"], async () => "done")).toEqualTypeOf<string>();
  const result = await locks.using("a", { wait: 0 }, (held) => {
    expectTypeOf(held).toEqualTypeOf<Lease>();
    return held.fence;
  });
  expectTypeOf(result).toEqualTypeOf<bigint>();
  // @ts-expect-error: a function is required
  await locks.using("a");
  // @ts-expect-error: a function is required after the options
  await locks.using("a", { wait: 0 });
  // @ts-expect-error: options go before the function
  await locks.using("a", () => 5, { wait: 0 });
  // @ts-expect-error: unknown option
  await locks.using("a", { timeout: 0 }, () => 5);
}

export async function once(): Promise<void> {
  const outcome = await locks.once("a", { atLeast: "1m" }, () => 5);
  expectTypeOf(outcome).toEqualTypeOf<OnceResult<number>>();
  if (outcome.ran) expectTypeOf(outcome.result).toEqualTypeOf<number>();
  // @ts-expect-error: there is no result unless it ran
  expectTypeOf(outcome.result).toEqualTypeOf<number>();
  // @ts-expect-error: atLeast is required
  await locks.once("a", {}, () => 5);
  // @ts-expect-error: the options are required
  await locks.once("a", () => 5);
}

export function elect(): void {
  expectTypeOf(locks.elect("cron")).toEqualTypeOf<Election>();
  locks.elect("cron", (term) => expectTypeOf(term).toEqualTypeOf<Lease>());
  locks.elect("cron", { ttl: "10s" }, async () => {});
  // @ts-expect-error: an election has one name
  locks.elect(["a", "b"]);
  // @ts-expect-error: an election waits without a limit
  locks.elect("cron", { wait: "10s" });
}

export async function operate(): Promise<void> {
  expectTypeOf(await locks.inspect("a")).toEqualTypeOf<LockInfo | null>();
  expectTypeOf(locks.list({ prefix: "a", limit: 5 })).toEqualTypeOf<AsyncIterable<LockInfo>>();
  expectTypeOf(await locks.revoke("a", { reason: "stuck", fence: 5n })).toEqualTypeOf<boolean>();
  expectTypeOf(await locks.check()).toEqualTypeOf<readonly Finding[]>();
  expectTypeOf(locks.guarantees).toEqualTypeOf<Guarantees>();
  // @ts-expect-error: a reason is required
  await locks.revoke("a", { force: true });
  // @ts-expect-error: a fence is a bigint
  await locks.revoke("a", { reason: "stuck", fence: 5 });
  // @ts-expect-error: one key at a time
  await locks.inspect(["a"]);
  // @ts-expect-error: what a store promises is not writable
  locks.guarantees = store.guarantees;
}

export async function transactions(): Promise<void> {
  expectTypeOf(locks.inTransaction(tx)).toEqualTypeOf<TransactionLocks>();
  const inside = await locks.inTransaction(tx).acquire("a");
  expectTypeOf(inside).toEqualTypeOf<TransactionLease>();
  expectTypeOf(inside.fence).toEqualTypeOf<bigint>();
  // @ts-expect-error: the end of the transaction releases the lock
  await inside.release();
  // @ts-expect-error: the lock lasts as long as the transaction
  void inside.remaining;
}

export function leases(): void {
  expectTypeOf<Lease>().toExtend<AsyncDisposable>();
  expectTypeOf(lease.fence).toEqualTypeOf<bigint>();
  expectTypeOf(lease.held).toEqualTypeOf<boolean>();
  expectTypeOf(lease.remaining).toEqualTypeOf<number>();
  expectTypeOf(lease.signal).toEqualTypeOf<AbortSignal>();
  expectTypeOf(lease.release()).toEqualTypeOf<Promise<boolean>>();
  // @ts-expect-error: the fence belongs to the grant
  lease.fence = 5n;
  // @ts-expect-error: held is a property
  void lease.held();
  // @ts-expect-error: a text without a unit
  void lease.extend("30");
}

export function events(): void {
  const off = locks.on("lost", (event) => {
    expectTypeOf(event).toEqualTypeOf<EventMap["lost"]>();
    expectTypeOf(event.fence).toEqualTypeOf<bigint>();
    expectTypeOf(event.reason).toEqualTypeOf<LossReason>();
  });
  locks.on("timeout", (event) => {
    expectTypeOf(event.holders).toEqualTypeOf<readonly HolderSummary[]>();
    // @ts-expect-error: a call that timed out has no lease
    void event.fence;
  });
  locks.on("aborted", ({ waitedMs }) => expectTypeOf(waitedMs).toEqualTypeOf<number>());
  locks.on("unavailable", ({ key, error }) => {
    expectTypeOf(key).toEqualTypeOf<string | undefined>();
    expectTypeOf(error.code).toEqualTypeOf<LockErrorCode>();
  });
  expectTypeOf(off).toEqualTypeOf<() => void>();
  // @ts-expect-error: no event is named error
  locks.on("error", () => {});
  // @ts-expect-error: a listener is required
  locks.on("lost");
}

export function options(given: AcquireOptions): void {
  // An option that is undefined counts as absent, also under exactOptionalPropertyTypes.
  expectTypeOf<{
    ttl: undefined;
    wait: undefined;
    mode: undefined;
    limit: undefined;
    permits: undefined;
    renew: undefined;
    maxHold: undefined;
    reentrant: undefined;
    within: undefined;
    signal: undefined;
    label: undefined;
  }>().toExtend<AcquireOptions>();
  void locks.list({ prefix: undefined, limit: undefined });
  void locks.revoke("a", { reason: "stuck", fence: undefined, force: undefined });
  createLocks("memory:", { ttl: undefined, deadlock: undefined, allow: undefined });
  // @ts-expect-error: holdfast does not modify options
  given.ttl = "30s";
  expectTypeOf<AcquireOptions>().toHaveProperty("ttl").toEqualTypeOf<Duration | undefined>();
  expectTypeOf<AcquireOptions>().not.toHaveProperty("atLeast");
}
