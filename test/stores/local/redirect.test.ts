// Another user who may write to the directory replaces a path between two steps of this process. Nothing
// outside of the directory is made or changed, and nothing hangs: a process of root must not become the
// tool of such a user.

import { spawnSync } from "node:child_process";
import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { checkAppend } from "../../../src/stores/local/append-check.ts";
import { Folder, type FolderOptions } from "../../../src/stores/local/folder.ts";
import { openDirectory } from "../../../src/stores/local/lock-directory.ts";
import { rejectPreviousVersion } from "../../../src/stores/local/previous-version.ts";
import { freshDir } from "./fixture.ts";

let dir: ReturnType<typeof freshDir>;
let shared: string;
/** Where the other user leads this process. */
let target: string;
beforeEach(() => {
  dir = freshDir();
  shared = join(dir.path, "shared");
  target = join(dir.path, "target");
  for (const path of [shared, target]) mkdirSync(path);
  chmodSync(shared, 0o777);
});
afterEach(() => {
  dir.remove();
});

/**
 * `meanwhile` runs whenever the code asks whether the directory is shared, which it does before each step.
 */
function options(meanwhile: () => void = () => {}): FolderOptions {
  const stats = statSync(shared);
  return {
    directory: {
      path: shared,
      get isShared() {
        meanwhile();
        return true;
      },
      isReadOnly: false,
      isReplaceable: false,
      stats,
    },
    bootId: "boot",
    namespace: "test",
    emptyLog: Buffer.from("log\n"),
    randomId: () => "0123456789abcdef",
  };
}

it("a folder that is being made cannot be swapped for a link to another place", () => {
  const draft = join(shared, ".new-0123456789abcdef");
  let swapped = false;
  const swap = (): void => {
    if (swapped || !existsSync(draft)) return;
    // First the steps on the folder itself, then those inside of it.
    if ((statSync(draft).mode & 0o777) === 0o700) return;
    swapped = true;
    renameSync(draft, join(shared, "moved"));
    symlinkSync(target, draft);
  };
  try {
    Folder.open(options(swap))?.close();
  } catch {
    // To fail is as good.
  }
  expect(swapped).toBe(true);
  expect(readdirSync(target)).toEqual([]);
});

it("a folder that is being made cannot be swapped for another one, whose mode would be opened", () => {
  const draft = join(shared, ".new-0123456789abcdef");
  const secret = join(shared, "secret");
  mkdirSync(secret, 0o700);
  writeFileSync(join(secret, "file"), "");
  let swapped = false;
  const swap = (): void => {
    if (swapped || !existsSync(draft)) return;
    swapped = true;
    rmSync(draft, { recursive: true });
    renameSync(secret, draft);
  };
  expect(() => Folder.open(options(swap))).toThrow(/is not the folder that was just made/);
  expect(swapped).toBe(true);
  expect(statSync(draft).mode & 0o777).toBe(0o700);
});

it("a directory cannot be swapped for a link by who may write to the directory above it", () => {
  const path = join(shared, "locks");
  mkdirSync(path, 0o700);
  const folder = Folder.open({ ...options(), directory: openDirectory(path) }) as Folder;
  try {
    renameSync(path, join(shared, "moved"));
    mkdirSync(join(target, folder.name));
    symlinkSync(target, path);
    closeSync(folder.create(folder.join("log.1")));
  } finally {
    folder.close();
  }
  expect(readdirSync(join(target, folder.name))).toEqual([]);
  const directory = openDirectory(join(shared, "moved"));
  const elsewhere = { ...directory, stats: statSync(target) };
  expect(() => Folder.open({ ...options(), directory: elsewhere })).toThrow(/replaced it during this call/);
});

it("the check of doctor appends to its own file only", async () => {
  const victim = join(target, "victim");
  writeFileSync(victim, "precious\n");
  const folder = Folder.open(options()) as Folder;
  try {
    const trap = Object.create(folder, {
      join: { value: (name: string) => folder.join(name) },
      create: {
        value: (path: string) => {
          const fd = folder.create(path);
          rmSync(path);
          symlinkSync(victim, path);
          return fd;
        },
      },
    }) as Folder;
    await checkAppend(trap, "0123456789ab").catch(() => {});
  } finally {
    folder.close();
  }
  expect(readFileSync(victim, "utf8")).toBe("precious\n");
});

it("a pipe in the place of the log is rejected, and does not make the reader wait", () => {
  const folder = Folder.open(options()) as Folder;
  try {
    expect(spawnSync("sh", ["-c", `mkfifo '${join(folder.path, "log.1")}'`]).status).toBe(0);
    expect(() => folder.open(folder.join("log.1"), constants.O_RDONLY)).toThrow(/not a regular file/);
  } finally {
    folder.close();
  }
});

it("the place of version 0.1.0 counts only if it belongs to this user, so that nobody else can block root", () => {
  const before = join(dir.path, "holdfast-0");
  mkdirSync(join(before, "boot"), { recursive: true });
  const file = join(before, "boot", "a".repeat(32));
  writeFileSync(file, "pid 1\n");
  const locks = join(dir.path, "locks");
  writeFileSync(locks, `1: FLOCK  ADVISORY  WRITE 1 08:01:${statSync(file).ino} 0 EOF\n`);
  const { uid } = statSync(before);
  const reject = (owner: number): void => {
    const { directory } = options();
    rejectPreviousVersion(directory, { path: before, owner }, "boot", locks);
  };
  expect(() => reject(uid)).toThrow(/processes of holdfast 0\.1\.0/);
  expect(() => reject(uid + 1)).not.toThrow();
  renameSync(before, join(dir.path, "elsewhere"));
  symlinkSync(join(dir.path, "elsewhere"), before);
  expect(() => reject(uid)).not.toThrow();
});
