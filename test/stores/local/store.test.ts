// The store against its contract, within one process: exact keys, several stores, clean-up, and files that are taken away.

import { spawnSync } from "node:child_process";
import {
  existsSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { OpenStore, StoreEnv } from "../../../src/core/store.ts";
import { local } from "../../../src/stores/local/index.ts";
import { loadKernelLock } from "../../../src/stores/local/kernel-lock.ts";
import { nodeSystem } from "../../../src/system/node.ts";
import {
  filesIn,
  freshDir,
  grantOf,
  isBusy,
  keyFileIn,
  openIn,
  plainIo,
  request,
  waitFor,
} from "./fixture.ts";

const io = plainIo();
let dir: ReturnType<typeof freshDir>;
let open: OpenStore[];
beforeEach(() => {
  dir = freshDir();
  open = [];
});
afterEach(async () => {
  await Promise.all(open.map((one) => one.close()));
  dir.remove();
});

async function store(env: Partial<StoreEnv> = {}): Promise<OpenStore> {
  const one = await local({ dir: dir.path }).open({
    namespace: "test",
    system: nodeSystem,
    allow: [],
    ...env,
  });
  open.push(one);
  return one;
}

async function release(
  one: OpenStore,
  asked: ReturnType<typeof request>,
  fences: readonly bigint[],
): Promise<string> {
  return one.release(asked, null, { lastFences: fences }, io);
}

async function listed(one: OpenStore, prefix = "", limit = 1_000): Promise<string[]> {
  const keys: string[] = [];
  for await (const info of one.list({ prefix, limit }, io)) keys.push(info.key);
  return keys.sort();
}

/** Sockets, and whatever is open in the directory of this test. */
function descriptors(): number {
  return readdirSync("/proc/self/fd").filter((fd) => /^socket:|^\/tmp\/hf-/.test(target(fd))).length;
}

function target(fd: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    // The descriptor by which the folder itself was read.
    return "";
  }
}

describe("keys", () => {
  it("are exact: nothing is trimmed, folded, normalised or cut (P18)", async () => {
    const [one, two] = [await store(), await store()];
    const keys = [
      "a",
      "A",
      "a ",
      " a",
      "a/b",
      "a/../a",
      "ä",
      "a\u0308",
      "a\0b",
      "\n",
      ".",
      "floor",
      "{a}",
      "x".repeat(4_096),
      "x".repeat(4_095),
    ];
    for (const key of keys) await grantOf(one, request(key));
    for (const key of keys) expect(await isBusy(two, request(key, { queue: false }))).toBe(true);
    expect(await listed(two)).toEqual([...keys].sort());
  });

  it("of two namespaces do not meet", async () => {
    const [one, two] = [await store(), await store({ namespace: "other" })];
    await grantOf(one, request("a"));
    await grantOf(two, request("a"));
    expect(await listed(two)).toEqual(["a"]);
  });

  it("are listed by prefix and limit, and only while somebody holds or waits", async () => {
    const one = await store();
    const asked = request("b:1");
    const { fences } = await grantOf(one, asked);
    for (const key of ["a:1", "a:2", "a:3"]) await grantOf(one, request(key));
    expect(await listed(one, "a:")).toEqual(["a:1", "a:2", "a:3"]);
    expect(await listed(one, "a:", 2)).toHaveLength(2);
    await release(one, asked, fences);
    expect(await listed(one, "b")).toEqual([]);
  });
});

describe("records", () => {
  it("may be large: many waiters and long labels (P12)", async () => {
    const one = await store();
    const first = request("line");
    const { fences } = await grantOf(one, first);
    const line = Array.from({ length: 60 }, (_, i) => request("line", { label: `${i} ${"l".repeat(300)}` }));
    for (const asked of line) expect(await isBusy(one, asked)).toBe(true);
    expect((await one.inspect("line", io))?.waiters).toHaveLength(60);
    await release(one, first, fences);
    for (const asked of line) {
      const { fences: own } = await grantOf(one, { ...asked, seq: 2 });
      expect(await release(one, asked, own)).toBe("released");
    }
    expect(await one.inspect("line", io)).toBeNull();
  });

  it("that are damaged or of another format are refused at every call, by file and remedy (P19)", async () => {
    const one = await store();
    await grantOf(one, request("hurt"));
    const path = keyFileIn(dir.path);
    const bytes = readFileSync(path);
    const two = await store();
    for (const [at, text] of [
      [33, /damaged/],
      [4, /format/],
    ] as const) {
      const hurt = Buffer.from(bytes);
      for (const slot of [0, 2_048]) hurt[slot + at] = (hurt[slot + at] as number) ^ 0x55;
      writeFileSync(path, hurt);
      const refusal = {
        code: "ERR_STORE_UNSAFE",
        setting: path,
        message: expect.stringMatching(text) as string,
      };
      await expect(two.attempt(request("hurt"), io)).rejects.toMatchObject(refusal);
      await expect(two.inspect("hurt", io)).rejects.toMatchObject(refusal);
      await expect(listed(two)).rejects.toMatchObject(refusal);
    }
    writeFileSync(path, bytes);
    expect(await isBusy(two, request("hurt"))).toBe(true);
  });

  it("of another key in a key's file are refused (P18)", async () => {
    const one = await store();
    await grantOf(one, request("a"));
    const a = keyFileIn(dir.path);
    const bytes = readFileSync(a);
    await grantOf(one, request("b"));
    const b = filesIn(dir.path)
      .map((name) => join(dir.path, name))
      .find((path) => /[0-9a-f]{80}$/.test(path) && path !== a);
    writeFileSync(b as string, bytes);
    await expect((await store()).attempt(request("b"), io)).rejects.toThrow(/another key/);
  });

  it("of several keys change together or not at all (P9)", async () => {
    const [one, two] = [await store(), await store()];
    const held = request("b");
    const { fences } = await grantOf(one, held);
    const both = request(["a", "b", "c"]);
    expect(await isBusy(two, both)).toBe(true);
    expect((await one.inspect("a", io))?.holders).toEqual([]);
    const granted = waitFor(two, { ...both, seq: 2 });
    await release(one, held, fences);
    expect((await granted).fences).toHaveLength(3);
    for (const key of both.keys) expect(await isBusy(one, request(key, { queue: false }))).toBe(true);
  });
});

it("more keys at once than are kept open are taken together and released together (P9)", async () => {
  const [one, two] = [await store(), await store()];
  const many = request(Array.from({ length: 400 }, (_, i) => `m${String(i).padStart(3, "0")}`));
  const { fences } = await grantOf(one, many);
  expect(await isBusy(two, request("m000", { queue: false }))).toBe(true);
  expect(await isBusy(two, request("m399", { queue: false }))).toBe(true);
  expect(await release(one, many, fences)).toBe("released");
  expect(await listed(two)).toEqual([]);
});

describe("two stores", () => {
  it("pass a key on in the order of the line, and one release wakes one waiter (P12, P14)", async () => {
    const stores = [await store(), await store(), await store()];
    const asked = stores.map(() => request("k"));
    const { fences } = await grantOf(stores[0] as OpenStore, asked[0] as never);
    const woken: number[] = [];
    for (const i of [1, 2]) {
      await (stores[i] as OpenStore).subscribe?.(asked[i] as never, (grant) => {
        expect(grant).toBeUndefined();
        woken.push(i);
      });
      expect(await isBusy(stores[i] as OpenStore, asked[i] as never)).toBe(true);
    }
    await release(stores[0] as OpenStore, asked[0] as never, fences);
    await io.sleep(50);
    expect(woken).toEqual([1]);
    const next = await grantOf(stores[1] as OpenStore, {
      ...(asked[1] as never as ReturnType<typeof request>),
      seq: 2,
    });
    expect(next.fences[0]).toBeGreaterThan(fences[0] as bigint);
    expect(next).toMatchObject({ validMs: 30_000, anchor: 2 });
  });

  it("tell each other of a revocation at once", async () => {
    const [one, two] = [await store(), await store()];
    const asked = request("k");
    await grantOf(one, asked);
    const told = new Promise((resolve) =>
      one.onLoss?.((id, reason, detail) => resolve([id, reason, detail])),
    );
    expect(await two.revoke("k", { reason: "maintenance", force: false }, io)).toBe("revoked");
    expect(await told).toEqual([asked.id, "revoked", "maintenance"]);
    expect(await one.owns(asked, null, io)).toBe(false);
    expect(await two.revoke("free", { reason: "x", force: true }, io)).toBe("free");
  });

  it("are not disturbed by strangers who write nonsense to a mailbox", async () => {
    const one = await store();
    const folder = join(dir.path, readdirSync(dir.path)[0] as string);
    const socket = join(folder, readdirSync(folder).find((name) => name.endsWith(".sock")) as string);
    const stranger = connect(socket);
    const ended = new Promise((resolve) => stranger.on("close", resolve));
    stranger.on("error", () => {});
    stranger.write('{"wake":1}\nnull\n[]\n{"revoked":{}}\n\u0000\n');
    stranger.write("x".repeat(100_000));
    await ended;
    await grantOf(one, request("k"));
  });

  it("see a closed store's keys free at once", async () => {
    const [one, two] = [await openIn(dir.path), await store()];
    await grantOf(one, request("k"));
    await one.close();
    await grantOf(two, request("k"));
  });
});

describe("an id that has ended", () => {
  it("changes nothing any more (P8)", async () => {
    const one = await store();
    const asked = request("k");
    const { fences } = await grantOf(one, asked);
    expect(await release(one, asked, fences)).toBe("released");
    expect(await release(one, asked, fences)).toBe("not-held");
    expect(await one.attempt({ ...asked, seq: 2 }, io)).toEqual({ ended: true });
    const other = request("k");
    await one.abandon(other, io);
    expect(await one.attempt(other, io)).toEqual({ ended: true });
  });
});

describe("clean-up", () => {
  it("removes idle files, and the fence still grows when the clock was set back (P3, P16)", async () => {
    let aheadMs = 0;
    const one = await store({ system: { ...nodeSystem, wallMs: () => nodeSystem.wallMs() + aheadMs } });
    const asked = Array.from({ length: 40 }, (_, i) => request(`k${i}`));
    let last = 0n;
    for (const each of asked) {
      const { fences } = await grantOf(one, each);
      last = fences[0] as bigint;
      await release(one, each, fences);
    }
    const kept = request("kept");
    await grantOf(one, kept);
    aheadMs = 120_000;
    for (let i = 0; i < 60; i += 1) {
      const each = request(`n${i}`);
      await release(one, each, (await grantOf(one, each)).fences);
    }
    const files = filesIn(dir.path).filter((name) => name.includes("keys/"));
    expect(files.length).toBeLessThan(70);
    aheadMs = -3_600_000;
    const again = await grantOf(one, request("k39"));
    expect(again.fences[0]).toBeGreaterThan(last);
    expect(await one.owns(kept, null, io)).toBe(true);
  });

  it("half done by a process that was killed is finished by the next", async () => {
    const one = await store();
    const asked = request("k");
    const { fences } = await grantOf(one, asked);
    await release(one, asked, fences);
    const { SlotFile, GONE } = await import("../../../src/stores/local/slot-file.ts");
    const { openExisting } = await import("../../../src/stores/local/key-files.ts");
    const path = keyFileIn(dir.path);
    const file = new SlotFile(path, openExisting(path) as number, loadKernelLock());
    file.read();
    file.write(GONE);
    file.close();
    expect(await one.inspect("k", io)).toBeNull();
    await grantOf(one, request("k"));
    expect(await isBusy(await store(), request("k"))).toBe(true);
  });

  it("takes the files of dead processes and leaves those of the living", async () => {
    const one = await store();
    const folder = join(dir.path, readdirSync(dir.path)[0] as string);
    const dead = nodeSystem.randomId();
    for (const name of [dead, `${dead}.sock`, `.${nodeSystem.randomId()}`])
      writeFileSync(join(folder, name), "");
    await store();
    expect(readdirSync(folder).filter((name) => name.length === 32)).toHaveLength(2);
    expect(existsSync(join(folder, `${dead}.sock`))).toBe(false);
    await grantOf(one, request("k"));
  });

  it("closing leaves no file, socket, descriptor or handle, however many keys and peers there were (P16)", async () => {
    const before = descriptors();
    const [one, two] = [await openIn(dir.path), await openIn(dir.path)];
    for (let i = 0; i < 400; i += 1) await grantOf(one, request(`k${i}`));
    for (let i = 0; i < 20; i += 1) {
      const asked = request(`k${i}`);
      await two.subscribe?.(asked, () => {});
      expect(await isBusy(two, asked)).toBe(true);
    }
    expect(descriptors()).toBeLessThan(before + 320);
    await Promise.all([one.close(), two.close()]);
    await one.close();
    await io.sleep(20);
    expect(descriptors()).toBe(before);
    const folder = join(dir.path, readdirSync(dir.path)[0] as string);
    expect(readdirSync(folder)).toEqual(["keys"]);
    await expect(one.attempt(request("k"), io)).rejects.toMatchObject({
      code: "ERR_STORE_UNAVAILABLE",
      message: /closed/,
    });
  });
});

describe("files that somebody removes while they are in use", () => {
  it("are noticed: the holder loses its lease, and the key can be had again", async () => {
    const one = await store();
    const asked = request("k");
    const { fences } = await grantOf(one, asked);
    unlinkSync(keyFileIn(dir.path));
    await io.sleep(300);
    const item = { request: asked, cookie: null, ttlMs: 30_000, lastFences: fences, label: "x" };
    expect(await one.renew([item], io)).toEqual([{ state: "lost", reason: "gone" }]);
    await grantOf(one, request("k"));
  });

  it("even all of them: what was held is lost, and the store goes on (P7)", async () => {
    const one = await store();
    const asked = request("k");
    const { fences } = await grantOf(one, asked);
    for (const name of readdirSync(dir.path)) rmSync(join(dir.path, name), { recursive: true });
    await io.sleep(300);
    const item = { request: asked, cookie: null, ttlMs: 30_000, lastFences: fences, label: "x" };
    expect(await one.renew([item], io)).toMatchObject([{ state: "lost", reason: "session" }]);
    await grantOf(one, request("k"));
    expect(await isBusy(await store(), request("k"))).toBe(true);
  });
});

describe("loading", () => {
  it("importing the store does not load the native addon", () => {
    const script = `await import("./src/stores/local/index.ts");
      const loaded = process.report.getReport().sharedObjects.filter((name) => name.includes("fs-native-extensions"));
      console.log(loaded.length);`;
    const run = spawnSync(process.execPath, ["--import", "tsx", "--input-type=module", "-e", script], {
      encoding: "utf8",
    });
    expect(run.stdout.trim()).toBe("0");
  });

  it("an open store does not keep its process alive (P16)", () => {
    const script = `import { local } from "./src/stores/local/index.ts";
      import { nodeSystem } from "./src/system/node.ts";
      await local({ dir: ${JSON.stringify(dir.path)} }).open({ namespace: "test", system: nodeSystem, allow: [] });`;
    const run = spawnSync(process.execPath, ["--import", "tsx", "--input-type=module", "-e", script], {
      timeout: 10_000,
    });
    expect(run.status).toBe(0);
  });

  it("is refused by name elsewhere than on Linux", () => {
    expect(() => loadKernelLock("darwin")).toThrow(
      expect.objectContaining({
        code: "ERR_LOCK_UNSUPPORTED",
        message: expect.stringContaining("Linux") as string,
      }),
    );
  });
});
