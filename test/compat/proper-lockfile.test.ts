// The API of proper-lockfile over holdfast: each case runs over the real package too, which says what it must
// show.

import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import original from "proper-lockfile";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import * as layer from "../../src/compat/proper-lockfile.ts";
import { createLocks, type Locks, UnsupportedError } from "../../src/index.ts";
import { createTestLocks } from "../../src/testing/index.ts";

let dir: string;
let locks: Locks;
let files = 0;

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "holdfast-lockfile-"));
  locks = createLocks(`local:${dir}`);
});

afterAll(async () => {
  await locks.close();
  rmSync(dir, { recursive: true, force: true });
});

function newFile(): string {
  const file = join(dir, `file-${(files += 1)}`);
  writeFileSync(file, "");
  return file;
}

interface Library {
  readonly name: string;
  lock(file: string, options?: layer.LockOptions): Promise<() => Promise<void>>;
  unlock(file: string, options?: layer.CheckOptions): Promise<void>;
  check(file: string, options?: layer.CheckOptions): Promise<boolean>;
}

const libraries: Library[] = [
  {
    name: "proper-lockfile",
    lock: (file, options) => original.lock(file, options as original.LockOptions),
    unlock: (file, options) => original.unlock(file, options as original.UnlockOptions),
    check: (file, options) => original.check(file, options as original.CheckOptions),
  },
  {
    name: "the layer",
    lock: (file, options) => layer.lock(file, { ...options, locks }),
    unlock: (file, options) => layer.unlock(file, { ...options, locks }),
    check: (file, options) => layer.check(file, { ...options, locks }),
  },
];

describe.each(libraries)("$name", ({ lock, unlock, check }) => {
  it("excludes until the release, which works once (P1)", async () => {
    const file = newFile();
    expect(await check(file)).toBe(false);
    const release = await lock(file);
    expect(await check(file)).toBe(true);
    await expect(lock(file)).rejects.toMatchObject({ code: "ELOCKED", file });
    await release();
    await expect(release()).rejects.toMatchObject({ code: "ERELEASED" });
    expect(await check(file)).toBe(false);
  });

  it("unlock releases what this process holds", async () => {
    const file = newFile();
    await expect(unlock(file)).rejects.toMatchObject({ code: "ENOTACQUIRED" });
    const release = await lock(file);
    await unlock(file);
    await expect(release()).rejects.toMatchObject({ code: "ERELEASED" });
    await (
      await lock(file)
    )();
  });

  it("waits as long as its retries take", async () => {
    const file = newFile();
    const release = await lock(file);
    const next = lock(file, { retries: { retries: 1_000, factor: 1, minTimeout: 10, maxTimeout: 50 } });
    await release();
    await (
      await next
    )();
  });

  it("follows links, unless told otherwise, and needs the file then", async () => {
    const [file, link] = [newFile(), join(dir, `link-${(files += 1)}`)];
    symlinkSync(file, link);
    const release = await lock(file);
    await expect(lock(link)).rejects.toMatchObject({ code: "ELOCKED" });
    await (
      await lock(link, { realpath: false })
    )();
    await release();
    const missing = join(dir, "missing");
    await expect(lock(missing)).rejects.toMatchObject({ code: "ENOENT" });
    await expect(check(missing)).rejects.toMatchObject({ code: "ENOENT" });
    await (
      await lock(missing, { realpath: false })
    )();
  });

  it("one lockfilePath is one lock, whatever the files", async () => {
    const [one, other, lockfilePath] = [newFile(), newFile(), join(dir, `own-${(files += 1)}.lock`)];
    const release = await lock(one, { lockfilePath });
    expect(await check(one, { lockfilePath })).toBe(true);
    await expect(lock(other, { lockfilePath })).rejects.toMatchObject({ code: "ELOCKED" });
    await release();
  });
});

describe("only the layer", () => {
  it("waits for the sum of the pauses between retries", async () => {
    const world = createTestLocks();
    const file = newFile();
    world.busy(`file:${file}.lock`);
    const failed = vi.fn<(error: unknown) => void>();
    layer.lock(file, { locks: world, retries: { retries: 3, maxTimeout: 3_000 } }).catch(failed);
    await expect.poll(async () => (await world.inspect(`file:${file}.lock`))?.waiters?.length).toBe(1);
    await world.advance(5_999);
    expect(failed).not.toHaveBeenCalled();
    await world.advance(1);
    await expect.poll(() => failed.mock.calls).toMatchObject([[{ code: "ELOCKED" }]]);
    await world.close();
  });

  it("tells onCompromised about a loss (P5)", async () => {
    const world = createTestLocks();
    const file = newFile();
    const onCompromised = vi.fn<(error: Error) => void>();
    const release = await layer.lock(file, { locks: world, stale: 100, onCompromised });
    world.lose(`file:${file}.lock`);
    expect(onCompromised.mock.calls).toMatchObject([[{ code: "ECOMPROMISED", file }]]);
    await expect(release()).rejects.toMatchObject({ code: "ERELEASED" });
    await world.close();
  });

  it("uses the local store of the machine by default", async () => {
    const file = newFile();
    const release = await layer.lock(file);
    expect(await layer.check(file)).toBe(true);
    expect(await layer.check(file, { locks })).toBe(false);
    await release();
  });

  it("rejects what it cannot do, and says what to use", async () => {
    expect(() => layer.lockSync()).toThrow("Use lock");
    expect(() => layer.unlockSync()).toThrow("Use unlock");
    expect(() => layer.checkSync()).toThrow(UnsupportedError);
    const fs = {} as never;
    await expect(layer.lock(newFile(), { fs })).rejects.toThrow("no lock file");
  });
});
