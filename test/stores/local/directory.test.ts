// The directory: which one it is, whom it lets in, and when it is rejected.

import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Disk } from "../../../faults/disk.ts";
import { preloadLibrary } from "../../../faults/preload.ts";
import { local, localByUrl } from "../../../src/stores/local/index.ts";
import { currentUser, defaultDirectory, openDefault } from "../../../src/stores/local/lock-directory.ts";
import { nodeSystem } from "../../../src/system/node.ts";
import {
  actor,
  child,
  filesIn,
  folderIn,
  freshDir,
  grantOf,
  heard,
  isBusy,
  logIn,
  openIn,
  plainIo,
  request,
  tell,
} from "./fixture.ts";
import { OTHER_USER, otherUsersActor } from "./other-user.ts";

const env = { namespace: "test", system: nodeSystem, allow: [] };
const user = currentUser();
const uid = user.uid ?? 0;
let dir: ReturnType<typeof freshDir>;
beforeEach(() => {
  dir = freshDir();
});
afterEach(() => {
  dir.remove();
});

function unsafe(text: RegExp): object {
  const matcher: unknown = expect.objectContaining({
    code: "ERR_STORE_UNSAFE",
    message: expect.stringMatching(text) as string,
  });
  return matcher as object;
}

describe("the default directory", () => {
  it("depends on the user id alone, so that cron and a login shell share it", async () => {
    const key = `meet-${nodeSystem.randomId()}`;
    const bare = await actor("", [], { env: {} });
    const odd = await actor("", [], {
      env: { ...process.env, HOME: dir.path, TMPDIR: dir.path, XDG_RUNTIME_DIR: dir.path },
    });
    expect(await tell(bare, "take", key)).toEqual({ take: "granted" });
    expect(await tell(odd, "take", key)).toEqual({ take: "busy" });
    await tell(bare, "release", key);
    expect(await tell(odd, "take", key)).toEqual({ take: "granted" });
    await tell(odd, "release", key);
    await Promise.all([tell(bare, "close"), tell(odd, "close")]);
    await Promise.all([bare.end(), odd.end()]);
  });

  it("is where no other user can create it: /run for root, the home directory for others", () => {
    expect(defaultDirectory({ uid: 0, home: dir.path })).toBe("/run/holdfast");
    expect(defaultDirectory({ uid, home: dir.path })).toBe(
      uid === 0 ? "/run/holdfast" : join(dir.path, ".holdfast"),
    );
    const owner = statSync("/usr").uid;
    // A home that is missing or belongs to another user cannot be used: service users have such homes.
    for (const home of [null, "/nonexistent", "/usr"])
      expect(defaultDirectory({ uid: owner + 7, home })).toBe(`/tmp/holdfast-${owner + 7}`);
  });

  it("is made for its owner alone", () => {
    const made = openDefault(join(dir.path, "own"), user);
    expect(statSync(made.path).mode & 0o7777).toBe(0o700);
  });

  it("is rejected with what to do if another user took the name first (P19)", () => {
    const path = join(dir.path, "taken");
    mkdirSync(path, 0o700);
    expect(() => openDefault(path, { uid: uid + 1, home: null })).toThrow(
      unsafe(/belongs to user .* name another directory: --store local:/s),
    );
  });

  it("is rejected if it is a link, a file, or open to others (P19)", () => {
    const path = join(dir.path, "own");
    mkdirSync(join(dir.path, "elsewhere"));
    symlinkSync(join(dir.path, "elsewhere"), path);
    expect(() => openDefault(path, user)).toThrow(unsafe(/not a directory/));
    writeFileSync(join(dir.path, "file"), "");
    expect(() => openDefault(join(dir.path, "file"), user)).toThrow(unsafe(/not a directory/));
    mkdirSync(join(dir.path, "open"));
    chmodSync(join(dir.path, "open"), 0o770);
    expect(() => openDefault(join(dir.path, "open"), user)).toThrow(unsafe(/may write.*chmod 700/s));
  });

  it("is rejected where any user could replace it (P19)", () => {
    chmodSync(dir.path, 0o777);
    expect(() => openDefault(join(dir.path, "own"), user)).toThrow(unsafe(/sticky/));
  });

  it("is not judged by mode bits on Windows, which has none and reports that everybody may write", () => {
    chmodSync(dir.path, 0o777);
    const path = join(dir.path, "own");
    expect(openDefault(path, { uid: null, home: dir.path })).toMatchObject({ path, isShared: false });
  });
});

describe("a named directory", () => {
  it("is an absolute path of this machine", () => {
    expect(() => local({ dir: "locks" })).toThrow(expect.objectContaining({ code: "ERR_LOCK_ARGUMENT" }));
    expect(() => localByUrl("local:locks")).toThrow(/absolute path/);
    expect(() => localByUrl("local://host/locks")).toThrow(/names a host/);
    expect(() => local({ directory: "/tmp" } as never)).toThrow(/no option "directory"/);
  });

  it("is made where its parent is there, and refused by name where it is not", async () => {
    const store = await openIn(join(dir.path, "locks"));
    await store.close();
    await expect(openIn(join(dir.path, "no", "locks"))).rejects.toMatchObject({
      code: "ERR_LOCK_ARGUMENT",
      message: expect.stringContaining(`parent ${join(dir.path, "no")}`) as string,
    });
    writeFileSync(join(dir.path, "file"), "");
    await expect(openIn(join(dir.path, "file"))).rejects.toMatchObject({ code: "ERR_LOCK_ARGUMENT" });
  });

  it("that cannot be written to is unavailable, and the error says what to do (P17)", async () => {
    // /proc is the one directory that not even root may make files in.
    await expect(openIn("/proc")).rejects.toMatchObject({
      code: "ERR_STORE_UNAVAILABLE",
      message: expect.stringContaining("/proc") as string,
    });
  });

  it("lets in every user who may write to it: files and sockets follow its mode", async () => {
    chmodSync(dir.path, 0o2777);
    const store = await openIn(dir.path);
    const asked = request("shared");
    const grant = await grantOf(store, asked);
    const folder = folderIn(dir.path);
    expect(statSync(folder).mode & 0o2777).toBe(0o2777);
    for (const name of readdirSync(folder)) {
      const stats = statSync(join(folder, name));
      expect(stats.mode & 0o7777, name).toBe(stats.isSocket() ? 0o766 : 0o1666);
    }
    // Root tries it with another user, who reads the program from a copy. Anybody else can only be itself
    // twice.
    const other = await otherUsersActor(dir.path);
    expect(await tell(other, "take", "shared")).toEqual({ take: "busy" });
    other.say(JSON.stringify(["wait", "shared"]));
    await expect
      .poll(async () => (await store.inspect("shared", plainIo()))?.waiters?.length, { timeout: 60_000 })
      .toBe(1);
    await store.release(asked, null, { lastFences: grant.fences }, plainIo());
    expect(await heard(other)).toHaveProperty("granted");
    await other.end();
    expect(await store.attempt(request("shared"), plainIo())).toHaveProperty("granted");
    await store.close();
  });

  it("keeps its files to the owner where only the owner may write", async () => {
    chmodSync(dir.path, 0o755);
    const store = await openIn(dir.path);
    await grantOf(store, request("mine"));
    for (const name of filesIn(dir.path)) expect(statSync(join(dir.path, name)).mode & 0o7777).toBe(0o1600);
    await store.close();
  });

  it("may have a path longer than a socket's address", async () => {
    const deep = join(dir.path, "d".repeat(120));
    const [one, two] = [await openIn(deep), await openIn(deep)];
    const [first, second] = [request("far"), request("far")];
    const grant = await grantOf(one, first);
    const woken = new Promise<void>((resolve) => void two.subscribe?.(second, () => resolve()));
    expect(await two.attempt(second, plainIo())).toHaveProperty("busy");
    await one.release(first, null, { lastFences: grant.fences }, plainIo());
    await woken;
    const next = await grantOf(two, { ...second, seq: 2 });
    await two.release(second, null, { lastFences: next.fences }, plainIo());
    await Promise.all([one.close(), two.close()]);
    expect(readdirSync(folderIn(deep))).toEqual(["log.0", "spare"]);
  });
});

describe("files that are not ours in the place of the log", () => {
  it("are rejected: links, folders, and files of another user (P19)", async () => {
    await (await openIn(dir.path)).close();
    const log = logIn(dir.path);
    const target = join(dir.path, "target");
    writeFileSync(target, "precious");
    unlinkSync(log);
    symlinkSync(target, log);
    await expect(openIn(dir.path)).rejects.toEqual(unsafe(/symbolic link/));
    unlinkSync(log);
    mkdirSync(log);
    await expect(openIn(dir.path)).rejects.toMatchObject({ message: expect.stringContaining(log) as string });
    expect(readFileSync(target, "utf8")).toBe("precious");
  });

  it("cannot be reached by replacing the folder with a link in a shared directory", async () => {
    chmodSync(dir.path, 0o2777);
    const store = await openIn(dir.path);
    const folder = folderIn(dir.path);
    const trap = join(dir.path, "trap");
    mkdirSync(trap);
    renameSync(folder, `${folder}.moved`);
    symlinkSync(trap, folder);
    await expect(store.renew([], plainIo())).rejects.toMatchObject({
      code: expect.stringMatching(/^ERR_STORE/) as string,
    });
    await expect(openIn(dir.path)).rejects.toMatchObject({
      code: expect.stringMatching(/^ERR_STORE/) as string,
    });
    await store.close();
    expect(readdirSync(trap)).toEqual([]);
  });
});

// Only root can make a directory of another user.
describe.each(uid === 0 ? ["root"] : [])("the directory of another user, for %s", () => {
  it("is read and never written to: no file is made, changed or removed", async () => {
    chownSync(dir.path, OTHER_USER, OTHER_USER);
    const holder = await otherUsersActor(dir.path);
    expect(await tell(holder, "take", "theirs")).toEqual({ take: "granted" });
    const before = readdirSync(dir.path, { recursive: true });
    const store = await openIn(dir.path);
    expect(await store.inspect("theirs", plainIo())).toMatchObject({ holders: [{ label: "actor" }] });
    const keys: string[] = [];
    for await (const { key } of store.list({ prefix: "", limit: 9 }, plainIo())) keys.push(key);
    expect(keys).toEqual(["theirs"]);
    expect(await store.check(plainIo())).toContainEqual(expect.objectContaining({ id: "read-only" }));
    for (const call of [
      () => store.attempt(request("mine"), plainIo()),
      () => store.revoke("theirs", { reason: "x", force: true }, plainIo()),
    ])
      await expect(call()).rejects.toEqual(unsafe(/belongs to user 65534.*setpriv/s));
    await store.close();
    expect(readdirSync(dir.path, { recursive: true })).toEqual(before);
    await holder.end();
  });

  it("without any lock is empty, and stays so", async () => {
    chownSync(dir.path, OTHER_USER, OTHER_USER);
    const store = await openIn(dir.path);
    expect(await store.inspect("k", plainIo())).toBeNull();
    await store.close();
    expect(readdirSync(dir.path)).toEqual([]);
  });
});

describe("the folders of boots", () => {
  it("of earlier boots are removed, unless a living process is in one", async () => {
    const stray = join(dir.path, "00000000-00000000");
    mkdirSync(stray);
    writeFileSync(join(stray, "log.0"), "");
    let store = await openIn(dir.path);
    await expect.poll(() => readdirSync(dir.path), { timeout: 60_000 }).toHaveLength(1);
    await store.close();
    mkdirSync(stray);
    const alive = createServer().listen(join(stray, "0123456789ab"));
    await once(alive, "listening");
    store = await openIn(dir.path);
    expect(await store.check(plainIo())).toContainEqual(
      expect.objectContaining({ id: "several-boot-ids", level: "danger" }),
    );
    expect(readdirSync(dir.path)).toHaveLength(2);
    await store.close();
    expect(readdirSync(dir.path)).toHaveLength(2);
    alive.close();
    await once(alive, "close");
    store = await openIn(dir.path);
    await expect.poll(() => readdirSync(dir.path), { timeout: 60_000 }).toHaveLength(1);
    await store.close();
  });
});

describe("processes of version 0.1.0", () => {
  it("keep this version from opening while they live (P22)", async () => {
    const folder = join(dir.path, readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim());
    mkdirSync(folder);
    const file = join(folder, "a".repeat(32));
    writeFileSync(file, "pid 4711\nlabel x\n");
    await (await openIn(dir.path)).close();
    // Version 0.1.0 holds a lock on this file for as long as it lives; so does flock(1).
    const old = spawn("flock", ["--no-fork", file, "sh", "-c", "echo locked; exec sleep 600"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    await once(old.stdout, "data");
    await expect(openIn(dir.path)).rejects.toEqual(unsafe(/holdfast 0\.1\.0.*pid 4711/));
    old.kill("SIGKILL");
    await once(old, "exit");
    await (await openIn(dir.path)).close();
  });
});

describe("a disk that is full", () => {
  it("rejects new locks by name, and gives up its spare file for what was held (P17)", async () => {
    const disk = await Disk.open();
    const full = await actor(dir.path, [], { env: { ...process.env, ...disk.environment } });
    for (const key of ["held", "released"])
      expect(await tell(full, "take", key)).toEqual({ take: "granted" });
    disk.fill(dir.path);
    expect(await tell(full, "take", "new")).toMatchObject({
      error: "ERR_STORE_UNAVAILABLE",
      message: expect.stringMatching(/no room left.*ENOSPC/s) as string,
    });
    expect(disk.answers).toBeGreaterThan(0);
    const spare = join(folderIn(dir.path), "spare");
    expect(existsSync(spare)).toBe(true);
    expect(await tell(full, "release", "released")).toMatchObject({ release: "released" });
    expect(existsSync(spare)).toBe(false);
    disk.free();
    const store = await openIn(dir.path);
    for (const key of ["new", "released"]) expect(await store.inspect(key, plainIo())).toBeNull();
    expect(await isBusy(store, request("held", { queue: false }))).toBe(true);
    expect(await tell(full, "release", "held")).toMatchObject({ release: "released" });
    await grantOf(store, request("held"));
    await store.close();
    await full.end();
    disk.close();
  });

  it("at the opening is an error and leaves nothing", async () => {
    const refused = child("actor", [dir.path], ["bash", "-c", 'ulimit -f 0; exec "$@"', "bash"], {
      env: { ...process.env, TSX_DISABLE_CACHE: "1" },
    });
    expect(await heard(refused)).toMatchObject({ refused: "ERR_STORE_UNAVAILABLE" });
    expect(readdirSync(dir.path)).toEqual([]);
  });
});

describe("a file system that does not append atomically", () => {
  it("is found by doctor", async () => {
    const library = await preloadLibrary("append-shim");
    const preloaded = { ...process.env, LD_PRELOAD: library, HOLDFAST_APPEND: dir.path };
    const careless = await actor(dir.path, [], { env: preloaded });
    expect(await tell(careless, "check")).toEqual({
      found: expect.arrayContaining(["append-not-atomic"]) as string[],
    });
    await careless.end();
    const careful = await actor(dir.path);
    const { found } = await tell(careful, "check");
    expect(found).not.toContain("append-not-atomic");
    await careful.end();
  });
});

it("opening needs no more than the contract's env", async () => {
  const store = await local({ dir: dir.path }).open(env);
  await store.close();
});
