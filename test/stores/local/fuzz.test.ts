// Files of the local store that somebody else has written or cut off.

import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createLocks, type Locks } from "../../../src/index.ts";
import { SlotFile } from "../../../src/stores/local/slot-file.ts";
import { loadKernelLock } from "../../../src/stores/local/kernel-lock.ts";
import { freshDir } from "./fixture.ts";
import { complaints, damagedBytes, damagedJson } from "../../support/damage.ts";
import { runs } from "../../support/histories-count.ts";

let dir: ReturnType<typeof freshDir>;
let locks: Locks;

beforeEach(() => {
  dir = freshDir();
  locks = createLocks(`local:${dir.path}`);
});

afterEach(async () => {
  await locks.close();
  dir.remove();
});

function keysFolder(): string {
  const [boot = ""] = readdirSync(dir.path);
  return join(dir.path, boot, "keys");
}

/** The file of a key that was just used, held by nobody. */
async function fileOf(key: string): Promise<string> {
  const before = new Set(readdirSync(keysFolder()));
  await locks.using(key, () => {});
  const made = readdirSync(keysFolder()).filter((name) => !before.has(name));
  expect(made).toHaveLength(1);
  return join(keysFolder(), made[0] as string);
}

it("bytes of any kind in the file of a key are told by name, and kept", async () => {
  await locks.using("fine", () => {});
  const path = await fileOf("damaged");
  const real = readFileSync(path);
  await fc.assert(
    fc.asyncProperty(
      damagedBytes(() => real),
      async (bytes) => {
        writeFileSync(path, bytes);
        expect(await complaints(locks, "damaged", "fine")).toEqual([]);
      },
    ),
    runs(60),
  );
  writeFileSync(path, real);
});

it("a record that is none under a correct checksum is told by name", async () => {
  await locks.using("fine", () => {});
  const path = await fileOf("damaged");
  const lease = await locks.acquire("damaged");
  const waiting = createLocks(`local:${dir.path}`);
  const next = waiting.acquire("damaged", { wait: 20_000 });
  await expect.poll(async () => (await locks.inspect("damaged"))?.waiters?.length).toBe(1);
  const kernel = loadKernelLock();
  const fd = openSync(path, "r+");
  const file = new SlotFile(path, fd, kernel);
  const real = file.read();
  await lease.release();
  await (await next).release();
  await waiting.close();
  await fc.assert(
    fc.asyncProperty(
      damagedJson(() => real),
      async (text) => {
        file.read();
        file.write(text === "" ? " " : text);
        expect(await complaints(locks, "damaged", "fine")).toEqual([]);
      },
    ),
    runs(60),
  );
  closeSync(fd);
});

it("things that are no files, and files that are no keys, do not stop the others", async () => {
  await locks.using("fine", () => {});
  const path = await fileOf("damaged");
  for (const plant of [
    () => mkdirSync(path),
    () => symlinkSync("/dev/null", path),
    () => symlinkSync("/nowhere/at/all", path),
    () => symlinkSync(path, path),
    () => writeFileSync(path, ""),
  ]) {
    rmSync(path, { recursive: true, force: true });
    plant();
    const found = await complaints(locks, "damaged", "fine");
    // What is no file of ours at all is told in the words of the file system, with its path.
    expect(found.filter((one) => !one.includes(path) && !one.includes(keysFolder()))).toEqual([]);
  }
  rmSync(path, { recursive: true, force: true });
  for (const name of ["stranger", ".hidden", "keys", "0".repeat(64)])
    writeFileSync(join(keysFolder(), name), "?");
  expect(await complaints(locks, "another", "fine")).toEqual([]);
});
