// The directory: which one it is, whom it lets in, and when it is refused.

import {
  chmodSync,
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { local, localByUrl } from "../../../src/stores/local/index.ts";
import { loadKernelLock } from "../../../src/stores/local/kernel-lock.ts";
import { openRoot } from "../../../src/stores/local/root.ts";
import { nodeSystem } from "../../../src/system/node.ts";
import {
  actor,
  child,
  filesIn,
  freshDir,
  grantOf,
  heard,
  openIn,
  plainIo,
  request,
  tell,
} from "./fixture.ts";

const env = { namespace: "test", system: nodeSystem, allow: [] };
const uid = process.geteuid?.() ?? 0;
const BOOT = readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
let dir: ReturnType<typeof freshDir>;
beforeEach(() => {
  dir = freshDir();
});
afterEach(() => {
  vi.restoreAllMocks();
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
  it("depends on the user id alone, so that cron and a login shell meet", async () => {
    expect(openRoot(undefined).path).toBe(`/tmp/holdfast-${uid}`);
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

  it("is made for its owner alone, whatever the umask", () => {
    const root = openRoot(undefined, dir.path);
    expect(statSync(root.path).mode & 0o7777).toBe(0o700);
  });

  it("is refused when it belongs to another user (P19)", () => {
    mkdirSync(join(dir.path, `holdfast-${uid + 1}`), 0o700);
    vi.spyOn(process as { geteuid(): number }, "geteuid").mockReturnValue(uid + 1);
    expect(() => openRoot(undefined, dir.path)).toThrow(unsafe(/belongs to user/));
  });

  it("is refused when it is a link, a file, or open to others (P19)", () => {
    const path = join(dir.path, `holdfast-${uid}`);
    mkdirSync(join(dir.path, "elsewhere"));
    symlinkSync(join(dir.path, "elsewhere"), path);
    expect(() => openRoot(undefined, dir.path)).toThrow(unsafe(/not a directory/));
    const second = freshDir();
    writeFileSync(join(second.path, `holdfast-${uid}`), "");
    expect(() => openRoot(undefined, second.path)).toThrow(unsafe(/not a directory/));
    second.remove();
    const third = freshDir();
    mkdirSync(join(third.path, `holdfast-${uid}`));
    chmodSync(join(third.path, `holdfast-${uid}`), 0o770);
    expect(() => openRoot(undefined, third.path)).toThrow(unsafe(/may write.*chmod 700/s));
    third.remove();
  });

  it("is refused where anybody could replace it (P19)", () => {
    chmodSync(dir.path, 0o777);
    expect(() => openRoot(undefined, dir.path)).toThrow(unsafe(/sticky/));
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

  it("lets in whoever may write to it: files and sockets follow its mode", async () => {
    chmodSync(dir.path, 0o2777);
    const store = await openIn(dir.path);
    const asked = request("shared");
    const grant = await grantOf(store, asked);
    const folder = join(dir.path, BOOT);
    expect(statSync(folder).mode & 0o2777).toBe(0o2777);
    for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
      const stats = statSync(join(folder, name));
      if (stats.isFile()) expect(stats.mode & 0o7777).toBe(0o1666);
      if (stats.isSocket()) expect(stats.mode & 0o777).toBe(0o666);
    }
    // Root tries it with another user; anybody else can only be itself twice.
    const other = await actor(dir.path, uid === 0 ? ["setpriv", "--reuid=65534", "--clear-groups"] : []);
    expect(await tell(other, "take", "shared")).toEqual({ take: "busy" });
    other.say(JSON.stringify(["wait", "shared"]));
    await plainIo().sleep(100);
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
    await grantOf(two, { ...second, seq: 2 });
    await Promise.all([one.close(), two.close()]);
    expect(readdirSync(join(deep, BOOT))).toEqual(["keys"]);
  });
});

describe("the folders of boots", () => {
  const OLD = "00000000-0000-4000-8000-000000000000";

  it("of earlier boots are removed, unless a living process is in one", async () => {
    const stray = join(dir.path, OLD);
    mkdirSync(join(stray, "keys"), { recursive: true });
    await (await openIn(dir.path)).close();
    expect(readdirSync(dir.path)).toEqual([BOOT]);
    mkdirSync(stray);
    const alive = openSync(join(stray, nodeSystem.randomId()), "w+");
    expect(loadKernelLock().tryExclusive(alive, 0)).toBe(true);
    const store = await openIn(dir.path);
    expect(readdirSync(dir.path).sort()).toEqual([OLD, BOOT].sort());
    expect(await store.check(plainIo())).toContainEqual(
      expect.objectContaining({ id: "several-boot-ids", level: "danger" }),
    );
    closeSync(alive);
    await store.close();
    await (await openIn(dir.path)).close();
    expect(readdirSync(dir.path)).toEqual([BOOT]);
  });
});

describe("a disk that is full", () => {
  it("costs nothing that was there: the old record stays, and the error says so (P17)", async () => {
    const store = await openIn(dir.path);
    const asked = request("full");
    const grant = await grantOf(store, asked);
    // No file may grow beyond 4 kB: a key file just fits, a long label does not.
    const limited = await actor(dir.path, ["bash", "-c", 'ulimit -f 4; exec "$@"', "bash"], {
      env: { ...process.env, TSX_DISABLE_CACHE: "1" },
    });
    expect(await tell(limited, "take", "small")).toEqual({ take: "granted" });
    expect(await tell(limited, "take", "large", "x".repeat(8_000))).toMatchObject({
      error: "ERR_STORE_UNAVAILABLE",
      message: expect.stringMatching(/Nothing was changed/) as string,
    });
    expect(await store.inspect("large", plainIo())).toBeNull();
    expect(await store.owns(asked, null, plainIo())).toBe(true);
    expect(await store.release(asked, null, { lastFences: grant.fences }, plainIo())).toBe("released");
    expect(await tell(limited, "release", "small")).toMatchObject({ release: "released" });
    await tell(limited, "close");
    await limited.end();
    await store.close();
  });

  it("at the opening is an error and leaves nothing", async () => {
    const refused = child("actor", [dir.path], ["bash", "-c", 'ulimit -f 0; exec "$@"', "bash"], {
      env: { ...process.env, TSX_DISABLE_CACHE: "1" },
    });
    expect(await heard(refused)).toMatchObject({ refused: "ERR_STORE_UNAVAILABLE" });
    expect(readdirSync(dir.path)).toEqual([]);
  });
});

it("opening needs no more than the contract's env", async () => {
  const store = await local({ dir: dir.path }).open(env);
  await store.close();
});
