// The first call of an opened `Locks` after its server was restarted. Each call has a `Locks` of its own, so
// that each one is the first after the restart. The server is back before the calls leave: no caller should
// have to retry.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Proxy } from "../../faults/proxy.ts";
import { type Lease, LockError, LockLostError, type Locks } from "../../src/index.ts";

export interface RestartSubject {
  /** A new `Locks` of the server, not opened yet. */
  open(): Locks;
  /** kill -9. */
  kill(): Promise<void>;
  /** Starts the killed server with its data. Resolves when the server answers on a connection of the test. */
  start(): Promise<void>;
  /** In front of the servers, to hide the restart from the client until the call has been sent. */
  readonly proxies?: readonly Proxy[];
  /** Some servers carry out a call that others lose, as a part of several nodes is restarted. */
  readonly partly?: true;
  /**
   * How long the server stays down, at least. Clients pause longer between tries to reconnect, the longer
   * that is.
   */
  readonly downMs?: number;
  /** Whether locks outlive the restart, as the store declares. */
  readonly locks: "kept" | "lost";
}

interface Call {
  readonly name: string;
  /** The one call after the restart. `lease` holds `key` since before the restart. */
  run(locks: Locks, lease: Lease, key: string): Promise<unknown>;
  /** What the call answers where locks are kept, and where they are lost. */
  readonly kept: unknown;
  readonly lost: unknown;
  /**
   * Where the first of two tries may have been carried out, nobody knows which of them ended the lock (P8).
   */
  readonly mayBeUnknown?: true;
}

/**
 * Longer than the restart and all calls take: only the restart can end a lease, and no renewal comes first.
 */
export const TTL = "120s";
const RESTART_MS = 120_000;
/** Leases that nobody releases. They must not be garbage-collected before their locks are closed. */
const leases: (Lease | null)[] = [];

const CALLS: readonly Call[] = [
  { name: "verify", run: (_locks, lease) => lease.verify(), kept: true, lost: false },
  {
    name: "extend",
    run: (_locks, lease) => lease.extend().then(() => "extended", lostOrThrow),
    kept: "extended",
    lost: "lost",
  },
  {
    name: "release",
    run: (_locks, lease) => lease.release(),
    kept: true,
    lost: false,
    mayBeUnknown: true,
  },
  {
    name: "tryAcquire of a free key",
    run: async (locks, _lease, key) => keep(await locks.tryAcquire(`${key}:free`, { ttl: TTL })),
    kept: true,
    lost: true,
    mayBeUnknown: true,
  },
  {
    name: "acquire of a free key",
    run: async (locks, _lease, key) => keep(await locks.acquire(`${key}:free`, { ttl: TTL })),
    kept: true,
    lost: true,
  },
  {
    name: "inspect",
    run: async (locks, _lease, key) => (await locks.inspect(key))?.holders.length ?? 0,
    kept: 1,
    lost: 0,
  },
  { name: "list", run: (locks, _lease, key) => countLocks(locks, key), kept: 1, lost: 0 },
  {
    name: "revoke",
    run: (locks, _lease, key) => locks.revoke(key, { reason: "test" }),
    kept: true,
    lost: false,
    mayBeUnknown: true,
  },
  { name: "check", run: async (locks) => Array.isArray(await locks.check()), kept: true, lost: true },
];

/** Declares the tests. `start` starts the server, `stop` stops it. */
export function describeFirstCallAfterRestart(
  name: string,
  start: () => Promise<RestartSubject>,
  stop: () => Promise<void>,
): void {
  describe(`the first call after a restart of the server, ${name} (P13, P17)`, () => {
    const outcomes = new Map<Call, Promise<unknown>>();
    const opened: Locks[] = [];
    let subject: RestartSubject;

    beforeAll(async () => {
      subject = await start();
      const prepared: { call: Call; locks: Locks; lease: Lease; key: string }[] = [];
      for (const call of CALLS) {
        const [locks, key] = [subject.open(), `first call: ${call.name}`];
        opened.push(locks);
        const lease = await locks.acquire(key, { ttl: TTL });
        keep(lease);
        prepared.push({ call, locks, lease, key });
      }
      for (const proxy of subject.proxies ?? []) proxy.cut();
      await subject.kill();
      await sleep(subject.downMs ?? 0);
      await subject.start();
      for (const { call, locks, lease, key } of prepared) outcomes.set(call, call.run(locks, lease, key));
      for (const proxy of subject.proxies ?? []) proxy.heal();
      await Promise.allSettled(outcomes.values());
    }, RESTART_MS);

    afterAll(async () => {
      await Promise.all(opened.map((locks) => locks.close({ drain: 0 })));
      leases.length = 0;
      for (const proxy of subject.proxies ?? []) await proxy.close();
      await stop();
    }, RESTART_MS);

    it.each(CALLS)("$name", async (call) => {
      const outcome = outcomes.get(call) as Promise<unknown>;
      if (mayBeUnknown(subject, call))
        expect([call.kept, call.lost, "unknown"]).toContain(await outcome.catch(unknownOrThrow));
      else expect(await outcome).toBe(call[subject.locks]);
    });

    it("and afterwards every key can be taken", async () => {
      for (const [at, { name: called }] of CALLS.entries()) {
        const [locks, key] = [opened[at] as Locks, `first call: ${called}:next`];
        expect(keep(await locks.acquire(key, { wait: 20_000 }))).toBe(true);
      }
    });
  });
}

function mayBeUnknown({ proxies, partly, locks }: RestartSubject, call: Call): boolean {
  return proxies !== undefined && (partly === true || locks === "lost") && call.mayBeUnknown === true;
}

function keep(lease: Lease | null): boolean | undefined {
  leases.push(lease);
  return lease?.held;
}

function unknownOrThrow(error: unknown): "unknown" {
  if (LockError.is(error) && error.retryable) return "unknown";
  throw error;
}

function lostOrThrow(error: unknown): "lost" {
  if (error instanceof LockLostError) return "lost";
  throw error;
}

async function countLocks(locks: Locks, key: string): Promise<number> {
  let count = 0;
  for await (const info of locks.list({ prefix: key })) count += info.key === key ? 1 : 0;
  return count;
}
