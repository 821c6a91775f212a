// Planted defects: stores that lie in one way each, to prove that the checkers would see a real one. Only a run that is
// asked for a cheat gets here with one; its result never counts.

import { setTimeout as sleep } from "node:timers/promises";
import type { MultiLease, Locks } from "../../src/index.ts";
import { nowMs } from "../journal.ts";
import type { Cheat } from "../settings.ts";
import type { ClientLease } from "./beliefs-book.ts";
import type { ClientLocks } from "./worker.ts";

const LATE_MS = 150;
/** Longer than any call may take. */
const SLOW_MS = 900;
/** Longer than the key of a dead holder may stay taken. */
const HOG_MS = 7_000;
const HOG_LOOK_MS = 100;
const KEEP_MS = 60_000;
const LARGEST_FENCE = 2n ** 62n;

/** Makes losses frequent without any fault. */
const SHORT_HOLD = { maxHold: 60 };

export function cheating(cheat: Cheat | null, locks: Locks): ClientLocks {
  switch (cheat) {
    case "no-lock":
      return {
        ...plain(locks),
        acquire: pretend,
        tryAcquire: pretend,
        using: async (keys, options, fn) => fn(await pretend(keys, options)),
      };
    case "long-window":
      return altered(locks, (lease) => around(lease, { remaining: () => lease.remaining * 3 }));
    case "fence-back":
    case "open-guard":
      return altered(locks, (lease) => {
        const fenceOf = (key: string): bigint => LARGEST_FENCE - lease.fenceOf(key);
        return around(lease, { fenceOf: () => fenceOf });
      });
    case "true-release":
      return altered(
        locks,
        (lease) => around(lease, { release: () => () => lease.release().then(() => true) }),
        SHORT_HOLD,
      );
    case "late-loss":
      return altered(locks, late, SHORT_HOLD);
    case "undying": {
      const { signal } = new AbortController();
      return altered(locks, (lease) => around(lease, { held: () => true, signal: () => signal }), SHORT_HOLD);
    }
    case "hog":
      return altered(locks, (lease) => around(lease, { release: () => () => hog(locks, lease) }));
    case "slow-ask":
      return {
        ...plain(locks),
        tryAcquire: (keys, options) => sleep(SLOW_MS).then(() => locks.tryAcquire(keys, options)),
      };
    case "bare-error":
      return { ...plain(locks), tryAcquire: () => Promise.reject(new Error("no quorum")) };
    case "keep":
      return { ...plain(locks), close: () => keep(locks).then(() => locks.close()) };
    case "silent-close":
      return silent(locks);
    case "endless-close":
      return { ...plain(locks), close: (options) => locks.close(options).then(() => endless(options)) };
    case null:
      break;
  }
  return locks;
}

function plain(locks: Locks): ClientLocks {
  return {
    acquire: (keys, options) => locks.acquire(keys, options),
    tryAcquire: (keys, options) => locks.tryAcquire(keys, options),
    using: (keys, options, fn) => locks.using(keys, options, fn),
    on: (event, listener) => locks.on(event, listener),
    close: (options) => locks.close(options),
  };
}

function altered(
  locks: Locks,
  alter: (lease: MultiLease) => ClientLease,
  more: { maxHold?: number } = {},
): ClientLocks {
  return {
    ...plain(locks),
    acquire: async (keys, options) => alter(await locks.acquire(keys, { ...options, ...more })),
    async tryAcquire(keys, options) {
      const lease = await locks.tryAcquire(keys, { ...options, ...more });
      return lease === null ? null : alter(lease);
    },
    using: (keys, options, fn) => locks.using(keys, { ...options, ...more }, (lease) => fn(alter(lease))),
  };
}

/** Releases what is held when it closes, and tells no holder. */
function silent(locks: Locks): ClientLocks {
  const held = new Set<MultiLease>();
  const { signal } = new AbortController();
  const untold = altered(locks, (lease) => {
    held.add(lease);
    return around(lease, { signal: () => signal });
  });
  return {
    ...untold,
    async close(options) {
      await Promise.all([...held].map((lease) => lease.release().catch(() => false)));
      await locks.close(options);
    },
  };
}

/** The same lease with some of its members read in another way. */
function around(
  lease: MultiLease,
  read: { [Name in keyof ClientLease]?: () => ClientLease[Name] },
): ClientLease {
  return new Proxy<ClientLease>(lease, {
    get(_, name) {
      const other = read[name as keyof ClientLease];
      if (other !== undefined) return other();
      const member: unknown = Reflect.get(lease, name, lease);
      return typeof member === "function" ? (member.bind(lease) as unknown) : member;
    },
  });
}

/** A lease out of thin air, with the fence that everybody gets. */
function pretend(
  keys: readonly string[],
  { ttl, mode }: { ttl: number; mode?: "exclusive" | "shared" },
): Promise<ClientLease> {
  const endMs = nowMs() + ttl;
  return Promise.resolve({
    ...{ key: keys[0] as string, keys, mode: mode ?? "exclusive", signal: new AbortController().signal },
    fenceOf: () => 7n,
    get held() {
      return nowMs() < endMs;
    },
    get remaining() {
      return endMs - nowMs();
    },
    release: () => Promise.resolve(true),
    extend: () => Promise.resolve(),
    verify: () => Promise.resolve(true),
  });
}

/** Tells of a loss when it is too late. */
function late(lease: MultiLease): ClientLease {
  const told = new AbortController();
  lease.signal.addEventListener("abort", () => setTimeout(() => told.abort(lease.signal.reason), LATE_MS));
  return around(lease, { signal: () => told.signal });
}

/** Says that it has let go, and keeps the key until a probe has waited for it for too long. */
function hog(locks: Locks, lease: MultiLease): Promise<boolean> {
  void (async () => {
    while (lease.held && !(await starved(locks, lease.key))) await sleep(HOG_LOOK_MS);
    await lease.release();
  })().catch(() => {});
  return Promise.resolve(true);
}

async function starved(locks: Locks, key: string): Promise<boolean> {
  const waiters = (await locks.inspect(key))?.waiters ?? [];
  return waiters.some(({ label, waitedMs }) => label.startsWith("probe") && waitedMs > HOG_MS);
}

/** After SIGTERM, which names a drain. */
function endless(options: { readonly drain?: unknown } = {}): Promise<void> {
  return options.drain === undefined ? Promise.resolve() : new Promise(() => {});
}

async function keep(locks: Locks): Promise<void> {
  await locks.once("left", { atLeast: KEEP_MS, wait: 0 }, () => {}).catch(() => {});
}
