// Nodes whose clocks are set while leases live: three real servers, each with a calendar of its own.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ClockShim, Offset } from "../../../faults/clock-shim.ts";
import { Proxy as TcpProxy } from "../../../faults/proxy.ts";
import { createLocks, type Locks, type LocksOptions, QuorumError } from "../../../src/index.ts";
import type { StoreEnv } from "../../../src/core/store.ts";
import { redlock, type RedlockOptions } from "../../../src/stores/redlock/index.ts";
import { scripts } from "../../../src/stores/redlock/scripts.generated.ts";
import { Masters } from "./subject.ts";

const HOUR_MS = 3_600_000;
const MAX_TTL = "20s";
/** Long enough for a busy machine, and shorter than the jump of a clock. */
const LEASE = { ttl: "18s", renew: false } as const;
const JUMP_MS = 22_000;

let folder: string;
let offsets: Offset[];
let masters: Masters;
let proxy: TcpProxy;
const opened = new Set<Locks>();

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "holdfast-clocks-"));
  const shim = await ClockShim.build();
  offsets = [1, 2, 3].map((node) => new Offset(join(folder, `${node}.offset`)));
  masters = new Masters(3, [], (at) => shim.environment(offsets[at] as Offset) as Record<string, string>);
  await masters.start();
  proxy = await TcpProxy.listen({ host: "127.0.0.1", port: masters.ports[2] as number });
  // The nodes are new, which is said once.
  const first = client({ allow: ["fresh-nodes"] });
  await (await first.acquire("first", { ...LEASE, wait: "60s" })).release();
});

afterEach(async () => {
  masters.thaw(1);
  await Promise.all([...opened].map((locks) => locks.close()));
  opened.clear();
  await proxy.close();
  await masters.stop();
  for (const offset of offsets) offset.close();
  rmSync(folder, { recursive: true, force: true });
});

interface ClientOptions extends Partial<RedlockOptions> {
  readonly allow?: NonNullable<LocksOptions["allow"]>;
  /** How far the calendar of this process is off. */
  readonly aheadMs?: number;
  /** For how long this machine has stood still. */
  readonly stoodStillMs?: () => number;
}

function client(options: ClientOptions = {}): Locks {
  const { allow = [], aheadMs = 0, stoodStillMs = () => 0, ...more } = options;
  const store = redlock({ nodes: masters.urls, driver: "ioredis", maxTtl: MAX_TTL, ...more });
  const open = (env: StoreEnv) => store.open({ ...env, system: moved(env.system, aheadMs, stoodStillMs) });
  const locks = createLocks({ ...store, open }, { allow });
  opened.add(locks);
  return locks;
}

/** A client that cannot reach node 3. */
async function cutClient(): Promise<Locks> {
  const [one = "", two = ""] = masters.urls;
  const locks = client({ nodes: [one, two, `redis://127.0.0.1:${proxy.port}`], nodeTimeout: "500ms" });
  await locks.inspect("k");
  proxy.cut();
  return locks;
}

function moved(system: StoreEnv["system"], aheadMs: number, stoodStillMs: () => number): StoreEnv["system"] {
  return new Proxy(system, {
    get(of, name: keyof StoreEnv["system"]) {
      const own = of[name];
      if (name === "wallMs") return () => of.wallMs() + aheadMs;
      if (name === "monoMs") return () => of.monoMs() - stoodStillMs();
      return typeof own === "function" ? own.bind(of) : own;
    },
  });
}

/** The fence of a grant, or null where the key is busy or no majority may vote. */
async function tried(locks: Locks): Promise<bigint | null> {
  try {
    return (await locks.tryAcquire("k", LEASE))?.fence ?? null;
  } catch (error) {
    if (error instanceof QuorumError) return null;
    throw error;
  }
}

describe("the clock of one node", () => {
  it("jumps forward: clients that knew the node do not count its vote (P1)", async () => {
    const [first, second] = [await cutClient(), client()];
    await second.inspect("k");
    const lease = await first.acquire("k", LEASE);
    expect(await tried(second)).toBeNull();
    offsets[0]?.set(JUMP_MS);
    for (let tries = 0; tries < 3; tries += 1) expect(await tried(second)).toBeNull();
    expect(lease.held).toBe(true);
    // The node is in quarantine now, so a client that has never talked to it does not count it either.
    expect(await tried(client())).toBeNull();
    expect(lease.held).toBe(true);
  });

  it("jumps forward: a new client can become a second holder, with a larger fence (P3)", async () => {
    const lease = await (await cutClient()).acquire("k", LEASE);
    offsets[0]?.set(JUMP_MS);
    const other = await tried(client());
    expect(lease.held).toBe(true);
    // The declared weakness of this store: see docs/stores/redlock.md.
    expect(other).toBeGreaterThan(lease.fence);
  });

  it("is wrong when an empty node boots, and corrected later: it does not vote (P1)", async () => {
    const [first, second] = [await cutClient(), client()];
    await second.inspect("k");
    const lease = await first.acquire("k", LEASE);
    await masters.killOne(0);
    offsets[0]?.set(-120_000);
    await masters.startOne(0);
    expect(await tried(second)).toBeNull();
    offsets[0]?.set(0);
    for (const locks of [second, client(), second]) expect(await tried(locks)).toBeNull();
    expect(lease.held).toBe(true);
  });

  it("is three hours ahead for a moment: its counters stay, and fences grow (P3)", async () => {
    const first = await cutClient();
    const second = client({ aheadMs: -600_000 });
    await second.inspect("k");
    const lease = await first.acquire("k", LEASE);
    await lease.release();
    offsets[0]?.set(3 * HOUR_MS);
    await masters.ask(0, "GET", "holdfast:{k}");
    offsets[0]?.set(0);
    masters.freeze(1);
    const next = await second.acquire("k", { ...LEASE, wait: "60s" });
    expect(next.fence).toBeGreaterThan(lease.fence);
  });
});

describe("a renewal", () => {
  it("tells of a node whose clock jumped, and goes on with the others (P2)", async () => {
    const locks = client();
    const jumps: { readonly node: string; readonly jumpMs: number }[] = [];
    locks.on("clock", (jump) => jumps.push(jump));
    const lease = await locks.acquire("k", { ...LEASE, wait: "60s" });
    await lease.extend();
    offsets[1]?.set(-600_000);
    await expect
      .poll(
        async () => {
          await lease.extend();
          return jumps.map(({ node, jumpMs }) => node.startsWith("node 2") && jumpMs < -500_000);
        },
        { timeout: 60_000 },
      )
      .toEqual([true]);
    expect(lease.held).toBe(true);
    expect((await locks.check()).map(({ id }) => id)).toEqual(
      expect.arrayContaining(["clock", "quarantine"]),
    );
  });
});

describe("a machine that stood still", () => {
  it("sees all nodes move alike, and counts their votes as before (P11)", async () => {
    let stoodStillMs = 0;
    const locks = client({ stoodStillMs: () => stoodStillMs });
    await (await locks.acquire("k", { ...LEASE, wait: "60s" })).release();
    stoodStillMs = JUMP_MS;
    await (await locks.acquire("k", { ...LEASE, wait: "60s" })).release();
    expect((await locks.check()).map(({ id }) => id)).not.toContain("quarantine");
  });
});

describe("old counters", () => {
  it("are swept, and the floor of the node keeps fences growing (P3, P16)", async () => {
    const old = await client().acquire("k", { ...LEASE, wait: "60s" });
    await old.release();
    for (const offset of offsets) offset.set(2 * HOUR_MS);
    // Whoever opens the store sweeps, if nobody has for long.
    const sweeper = client();
    await sweeper.check();
    await expect.poll(() => masters.ask(0, "EXISTS", "holdfast:{k}"), { timeout: 60_000 }).toBe(0);
    await sweeper.close();
    for (const offset of offsets) offset.set(0);
    const next = await client({ aheadMs: -600_000 }).acquire("k", { ...LEASE, wait: "60s" });
    expect(next.fence).toBeGreaterThan(old.fence);
  });
});

describe("a quarantine", () => {
  /** Says hello as a client does. Gives how long the node has to be watched yet, and what the client saw. */
  async function adopt(run: string, seen: string, sinceMs: number) {
    const settings = ["20000", "0", "0", run, "0"];
    const args = ["push:", "proc", "150", ...settings, seen, String(sinceMs)];
    const reply = await masters.ask(0, "EVAL", scripts.register.text, "1", "quarantined:node", ...args);
    const [server, state, , leftMs, now] = reply as [string, string, string, number, string];
    return { run: server, state, leftMs, seen: now };
  }

  it("ends by the time that clients have watched it, which counts once (P1)", async () => {
    const first = await adopt("", "", 0);
    expect(first).toMatchObject({ state: "waiting", leftMs: 26_400 });
    // The clock of the node counts for nothing.
    offsets[0]?.set(HOUR_MS);
    expect(await adopt(first.run, "", 0)).toMatchObject({ state: "waiting", leftMs: 26_400 });
    const second = await adopt(first.run, first.seen, 20_000);
    expect(second).toMatchObject({ state: "waiting", leftMs: 6_400 });
    // Another client that has watched the same time, and one that has watched another start of the server.
    expect(await adopt(first.run, first.seen, 20_000)).toMatchObject({ leftMs: 6_400 });
    expect(await adopt("another", second.seen, 20_000)).toMatchObject({ leftMs: 6_400 });
    expect(await adopt(first.run, second.seen, 6_400)).toMatchObject({ state: "ready", leftMs: 0 });
  });
});
