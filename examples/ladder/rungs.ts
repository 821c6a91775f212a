// Each rung: a naive lock that fails on a real server while we watch, and the same trouble met by holdfast. What is said here is what
// was seen in this very run.

import { setTimeout as sleep } from "node:timers/promises";
import { createLocks, type Lease, LockError, type Locks } from "holdfast";
import { FenceGate } from "holdfast/fence";
import { Proxy } from "../../faults/proxy.ts";
import { anonymous, majority, owned, scripted, setnx, setnxThenExpire } from "./naive.ts";
import { connected, type Servers } from "./servers.ts";

export interface Rung {
  readonly name: string;
  /** What goes wrong. */
  readonly pitfall: string;
  /** What cures it. */
  readonly cure: string;
  /** The test of the product that proves the cure. */
  readonly proof: string;
  climb(servers: Servers): Promise<Seen>;
}

export interface Seen {
  readonly naive: { readonly broke: boolean; readonly saw: string };
  readonly holdfast: { readonly held: boolean; readonly saw: string };
}

const TTL_MS = 600;
/** A lease of ours and its grace, and some air. */
const OVER_MS = 1_000;
/** Of a client that waits for a reply. */
const PATIENCE_MS = 300;
const SHORT = { ttl: TTL_MS, wait: 0 } as const;

/** A holder of which nothing more is heard: nobody renews, nobody releases. */
async function abandoned(url: string, key: string): Promise<Locks> {
  const silent = createLocks(url);
  await silent.acquire(key, { ttl: TTL_MS, renew: false });
  return silent;
}

async function freeAgain(locks: Locks, key: string): Promise<boolean> {
  const lease = await locks.acquire(key, { ttl: TTL_MS, wait: 5_000 });
  return lease.release();
}

const crash: Rung = {
  name: "SETNX and DEL",
  pitfall: "the holder crashes before DEL, and the key is taken for ever",
  cure: "every grant is a lease that ends by itself",
  proof: 'src/testing/cases: "ends" and "process-crash"',
  async climb({ redis, url, locks }) {
    await setnx.lock(redis, "naive:1");
    await sleep(OVER_MS);
    const stuck = !(await setnx.lock(redis, "naive:1"));
    const silent = await abandoned(url, "ladder:1");
    const free = await freeAgain(locks, "ladder:1");
    await silent.close();
    return {
      naive: {
        broke: stuck,
        saw: `${OVER_MS} ms after the crash the key is still taken, and always will be`,
      },
      holdfast: { held: free, saw: "the next holder got it when the lease was over" },
    };
  },
};

const twoSteps: Rung = {
  name: "SETNX, then EXPIRE",
  pitfall: "a crash between the two steps leaves a key without an end",
  cure: "one script sets holder, end and fence together",
  proof: "test/stores/redis/rules.test.ts, test/stores/redis/model.test.ts",
  async climb({ redis, url, locks }) {
    const died = new Error("crashed");
    const between = (): void => {
      throw died;
    };
    await setnxThenExpire.lock(redis, "naive:2", TTL_MS, between).catch(() => {});
    const endless = Number(await redis.pTTL("naive:2")) === -1;
    const silent = await abandoned(url, "ladder:2");
    const records = await redis.keys("holdfast:*ladder:2*");
    const ends = await Promise.all(records.map((record) => redis.pTTL(record)));
    const allEnd = ends.length > 0 && ends.every((ms) => Number(ms) > 0);
    const free = await freeAgain(locks, "ladder:2");
    await silent.close();
    return {
      naive: { broke: endless, saw: "PTTL is -1: no end was ever set" },
      holdfast: {
        held: allEnd && free,
        saw: `each of ${ends.length} records has an end`,
      },
    };
  },
};

const noOwner: Rung = {
  name: "SET NX PX without an owner",
  pitfall: "a slow holder deletes the lock of the one that came after it",
  cure: "only the id that was granted can release; a stale release says false",
  proof: 'src/testing/cases: "attempts" and "api-lease" (P5)',
  async climb({ redis, url, locks }) {
    await anonymous.lock(redis, "naive:3", TTL_MS);
    await sleep(TTL_MS + 50);
    await anonymous.lock(redis, "naive:3", 10_000);
    await anonymous.unlock(redis, "naive:3");
    const stolen = await anonymous.lock(redis, "naive:3", 10_000);
    const other = createLocks(url);
    const old = await other.acquire("ladder:3", { ttl: TTL_MS, renew: false });
    const successor = await locks.acquire("ladder:3", { wait: 2_000 });
    const stale = await old.release();
    const kept = await successor.verify();
    await successor.release();
    await other.close();
    return {
      naive: {
        broke: stolen,
        saw: "the first holder's DEL freed the second holder's lock; a third one got in",
      },
      holdfast: {
        held: !stale && kept,
        saw: "the stale release said false, and the successor still owns the key",
      },
    };
  },
};

const checkThenDelete: Rung = {
  name: "GET, compare, then DEL",
  pitfall: "the lease ends between GET and DEL, and the wrong lock is deleted",
  cure: "compare-and-delete in one script",
  proof: "test/stores/redis/model.test.ts",
  async climb({ redis }) {
    await owned.lock(redis, "naive:4", "A", TTL_MS);
    await owned.unlock(redis, "naive:4", "A", async () => {
      await sleep(TTL_MS + 50);
      await owned.lock(redis, "naive:4", "B", 10_000);
    });
    const deleted = (await redis.get("naive:4")) === null;
    await scripted.lock(redis, "naive:4b", "B", 10_000);
    const refused = !(await scripted.unlock(redis, "naive:4b", "A"));
    const kept = (await redis.get("naive:4b")) === "B";
    return {
      naive: { broke: deleted, saw: "A looked, slept, and deleted the lock of B" },
      holdfast: {
        held: refused && kept,
        saw: "in one script A deletes nothing: this is the step that holdfast takes",
      },
    };
  },
};

const noRenewal: Rung = {
  name: "no renewal",
  pitfall: "work takes longer than the ttl, and a second holder starts beside the first",
  cure: "a lease is renewed while it is held, and its holder knows when it is over",
  proof: 'src/testing/cases: "api-lease", src/core/lease/lease.test.ts (P7)',
  async climb({ redis, locks, url }) {
    await scripted.lock(redis, "naive:5", "A", TTL_MS);
    await sleep(TTL_MS * 2);
    const beside = await scripted.lock(redis, "naive:5", "B", TTL_MS);
    const lease = await locks.acquire("ladder:5", { ttl: TTL_MS });
    const other = createLocks(url);
    await sleep(TTL_MS * 3);
    const second = await other.tryAcquire("ladder:5", SHORT);
    const held = lease.held && second === null;
    await lease.release();
    await other.close();
    return {
      naive: { broke: beside, saw: "A is still at work, and B holds the lock" },
      holdfast: {
        held,
        saw: `after ${TTL_MS * 3} ms of a lease of ${TTL_MS} ms it is held, and nobody else got in`,
      },
    };
  },
};

const replyLost: Rung = {
  name: "the reply is lost",
  pitfall:
    "the server set the key, the client heard nothing and gives up: nobody holds the key, and nobody can have it",
  cure: "an attempt has an id of its own: sent again it is adopted, given up it is undone",
  proof: "test/stores/redis/network.test.ts (P8)",
  async climb({ redis, port, locks }) {
    const proxy = await Proxy.listen({ host: "127.0.0.1", port });
    const through = createLocks(`redis://127.0.0.1:${proxy.port}`);
    const client = await connected(proxy.port);
    try {
      await through.inspect("ladder:6");
      proxy.swallow("replies");
      const naive = scripted.lock(client, "naive:6", "A", 60_000).catch(() => "broken");
      const answer = await Promise.race([naive, sleep(PATIENCE_MS, "timed out")]);
      const blocked = answer === "timed out" && !(await scripted.lock(redis, "naive:6", "B", 60_000));
      const given = await through
        .acquire("ladder:6", { ttl: 60_000, wait: 300 })
        .catch((error: unknown) => error);
      proxy.heal();
      const lease = await locks.acquire("ladder:6", { wait: 8_000 });
      await lease.release();
      return {
        naive: { broke: blocked, saw: "the key is taken for a minute by a client that believes it failed" },
        holdfast: {
          held: LockError.is(given) && lease.fence > 0n,
          saw: `the caller was told ${LockError.is(given) ? given.code : String(given)}, and the key was free long before its ttl`,
        },
      };
    } finally {
      client.destroy();
      await through.close();
      await proxy.close();
    }
  },
};

const failover: Rung = {
  name: "a replica takes over",
  pitfall: "replication is asynchronous: the new master has never heard of the lock, and grants it again",
  cure: "the fence: the new master's grant has a larger one, so the resource refuses the old holder; or replicas: n to wait for them",
  proof: "test/stores/redis/failover.long.test.ts; docs/stores/redis.md",
  async climb({ redis, url, locks, forget }) {
    await scripted.lock(redis, "naive:7", "A", 60_000);
    const old = createLocks(url);
    const before = await old.acquire("ladder:7", { ttl: 60_000 });
    // What a replica that had nothing yet looks like to clients.
    await forget();
    const twice = await scripted.lock(redis, "naive:7", "B", 60_000);
    const after = await locks.acquire("ladder:7", { ttl: 60_000, wait: 2_000 });
    const gate = new FenceGate();
    gate.pass("ladder:7", after);
    const refused = refuses(gate, "ladder:7", before);
    await after.release();
    await old.close();
    return {
      naive: { broke: twice, saw: "A and B both hold the lock, and the resource cannot tell them apart" },
      holdfast: {
        held: after.fence > before.fence && refused,
        saw: "two grants, but the later fence is larger: the resource refused the old holder",
      },
    };
  },
};

const pause: Rung = {
  name: "a pause past the lease",
  pitfall:
    "the holder stops between its check and its write, wakes up after the lease and writes over its successor",
  cure: "the resource compares fences and refuses the stale one",
  proof: "test/fence, examples/fencing (P4)",
  async climb({ redis, url, locks }) {
    const account = { balance: 100 };
    await scripted.lock(redis, "naive:8", "A", TTL_MS);
    const seen = account.balance;
    await sleep(TTL_MS + 50);
    await scripted.lock(redis, "naive:8", "B", 10_000);
    account.balance += 50;
    // A goes on where it stood, with what it had read.
    account.balance = seen - 10;
    const lost = account.balance === 90;

    const gate = new FenceGate();
    const other = createLocks(url);
    const old = await other.acquire("ladder:8", { ttl: TTL_MS, renew: false });
    gate.pass("ladder:8", old);
    const successor = await locks.acquire("ladder:8", { wait: 2_000 });
    gate.pass("ladder:8", successor);
    const refused = refuses(gate, "ladder:8", old);
    await successor.release();
    await other.close();
    return {
      naive: { broke: lost, saw: "100 + 50 - 10 is 90: the deposit of B is gone" },
      holdfast: { held: refused, saw: "the write with the old fence was refused" },
    };
  },
};

const forgetful: Rung = {
  name: "Redlock with forgetful nodes",
  pitfall: "nodes restart without their data and vote again: two clients have a majority at once",
  cure: "a node that may have forgotten sits out; and two grants can never share or reverse fences",
  proof: "sim/models, test/stores/redlock",
  async climb({ nodes }) {
    const clients = nodes.map(({ client }) => client);
    const restart = (): Promise<unknown> => Promise.all(nodes.slice(1).map((node) => node.forget()));
    const a = await majority.lock(clients, "naive:9", "A", 60_000);
    await restart();
    const b = await majority.lock(clients, "naive:9", "B", 60_000);
    const url = `redlock://${nodes.map(({ port }) => `127.0.0.1:${port}`).join(",")}?maxTtl=3s`;
    const [ours, other] = [createLocks(url), createLocks(url)];
    try {
      const first = await ours.acquire("ladder:9", { ttl: 2_500, wait: 8_000 });
      await restart();
      const second: unknown = await other
        .tryAcquire("ladder:9", { ttl: 2_500 })
        .catch((error: unknown) => error);
      const refused = second === null || LockError.is(second);
      const said = LockError.is(second) ? second.code : "busy";
      return {
        naive: { broke: a && b, saw: "A and B both hold a majority of three" },
        holdfast: {
          held: first.fence > 0n && refused,
          saw: `the nodes that came back empty did not vote: the second client was told ${said}`,
        },
      };
    } finally {
      await Promise.all([ours.close(), other.close()]);
    }
  },
};

function refuses(gate: FenceGate, key: string, lease: Lease): boolean {
  try {
    gate.pass(key, lease);
    return false;
  } catch (error) {
    return LockError.is(error) && error.code === "ERR_FENCE_STALE";
  }
}

export const rungs: readonly Rung[] = [
  crash,
  twoSteps,
  noOwner,
  checkThenDelete,
  noRenewal,
  replyLost,
  failover,
  pause,
  forgetful,
];
