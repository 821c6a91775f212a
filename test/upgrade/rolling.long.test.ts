// A rolling upgrade: version 0.1.0, built from its commit, beside this version on the same keys of one
// server. docs/operations/upgrading.md says which stores allow that, and which need a pause.

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { kinds } from "../../scripts/servers/kinds.ts";
import { startRedis } from "../../scripts/servers/redis.ts";
import { createLocks, LockError, type Lease, type Locks, type LocksOptions } from "../../src/index.ts";

const COMMIT_0_1_0 = "e09ab47";
const root = join(import.meta.dirname, "..", "..");
const OPTIONS = { ttl: 30_000, wait: 10_000 } as const;

let dir: string;
let createOldLocks: (url: string, options?: LocksOptions) => Locks;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "holdfast-0.1.0-"));
  const source = execFileSync("git", ["archive", COMMIT_0_1_0], { cwd: root, maxBuffer: 2 ** 28 });
  execFileSync("tar", ["-x", "-C", dir], { input: source });
  mkdirSync(join(dir, "node_modules"));
  for (const name of readdirSync(join(root, "node_modules")))
    symlinkSync(join(root, "node_modules", name), join(dir, "node_modules", name));
  // Its types no longer fit the types of newer clients: the program is written all the same.
  try {
    execFileSync(process.execPath, [join(dir, "scripts", "build.mjs")], { cwd: dir, stdio: "pipe" });
  } catch (error) {
    if (!readdirSync(dir).includes("dist")) throw error;
  }
  const old = (await import(pathToFileURL(join(dir, "dist", "index.js")).href)) as {
    readonly createLocks: typeof createOldLocks;
  };
  createOldLocks = old.createLocks;
});

afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** null where the key was not granted, for whatever reason. */
async function granted(locks: Locks): Promise<Lease | null> {
  try {
    return await locks.acquire("a", { ...OPTIONS, wait: 500 });
  } catch (error) {
    // Errors of the other version are of its own classes.
    if (LockError.is(error) || (error as { readonly code?: string }).code !== undefined) return null;
    throw error;
  }
}

interface Running {
  readonly url: string;
  stop(): Promise<void>;
}

async function startNodes(): Promise<Running> {
  const nodes = await Promise.all([startRedis(), startRedis(), startRedis()]);
  return {
    url: `redlock://${nodes.map(({ url }) => new URL(url).host).join(",")}`,
    stop: async () => void (await Promise.all(nodes.map((node) => node.stop()))),
  };
}

const startOf = (kind: string): Promise<Running> =>
  kind === "redlock" ? startNodes() : (kinds[kind] as { start(): Promise<Running> }).start();

describe("version 0.1.0 beside this version", () => {
  it.each(["redis", "etcd", "zookeeper", "redlock", "postgres"])(
    "never holds a key together with it: %s (P1, P22)",
    async (kind) => {
      const server = await startOf(kind);
      const options: LocksOptions = kind === "redlock" ? { allow: ["fresh-nodes"] } : {};
      const [before, after] = [createOldLocks(server.url, options), createLocks(server.url, options)];
      try {
        const first = await before.acquire("a", OPTIONS);
        expect(await granted(after)).toBeNull();
        expect(first.held).toBe(true);
        if (kind === "redlock") return;
        await first.release();
        const second = await after.acquire("a", OPTIONS);
        expect(second.fence).toBeGreaterThan(first.fence);
        expect(await granted(before)).toBeNull();
        expect(second.held).toBe(true);
        await second.release();
      } finally {
        await Promise.allSettled([before.close({ drain: 0 }), after.close({ drain: 0 })]);
        await server.stop();
      }
    },
  );

  it.each(["etcd", "zookeeper"])("hands keys to and fro with it: %s (P3, P22)", async (kind) => {
    const server = await startOf(kind);
    const [before, after] = [createOldLocks(server.url), createLocks(server.url)];
    try {
      let last = 0n;
      for (const locks of [before, after, before, after]) {
        const lease = await locks.acquire("a", OPTIONS);
        expect(lease.fence).toBeGreaterThan(last);
        last = lease.fence;
        await lease.release();
      }
    } finally {
      await Promise.allSettled([before.close({ drain: 0 }), after.close({ drain: 0 })]);
      await server.stop();
    }
  });

  it("keeps this version from opening a MySQL store while one of its locks is live (P1, P22)", async () => {
    const server = await startOf("mariadb");
    const [before, after] = [createOldLocks(server.url), createLocks(server.url)];
    try {
      const first = await before.acquire("a", OPTIONS);
      expect(await granted(after)).toBeNull();
      await first.release();
      const second = await after.acquire("a", OPTIONS);
      expect(second.fence).toBeGreaterThan(first.fence);
      // It was open before, and could take its locks in its own tables.
      expect(await granted(before)).toBeNull();
      expect(second.held).toBe(true);
      await second.release();
    } finally {
      await Promise.allSettled([before.close({ drain: 0 }), after.close({ drain: 0 })]);
      await server.stop();
    }
  });

  it("cannot be started on a MySQL that knows only this version (P1, P22)", async () => {
    const server = await startOf("mariadb");
    const [before, after] = [createOldLocks(server.url), createLocks(server.url)];
    try {
      const lease = await after.acquire("a", OPTIONS);
      expect(await granted(before)).toBeNull();
      expect(lease.held).toBe(true);
      await lease.release();
      expect(await granted(before)).toBeNull();
    } finally {
      await Promise.allSettled([before.close({ drain: 0 }), after.close({ drain: 0 })]);
      await server.stop();
    }
  });
});
