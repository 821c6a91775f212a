// The store against its contract, within one process: exact keys, several stores, clean-up, and files that
// are taken away.

import { spawnSync } from "node:child_process";
import {
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { OpenStore, StoreEnv } from "../../../src/core/store.ts";
import { createLocks } from "../../../src/index.ts";
import { local } from "../../../src/stores/local/index.ts";
import { nodeSystem } from "../../../src/system/node.ts";
import { until } from "../../support/store-calls.ts";
import {
  actor,
  folderIn,
  freshDir,
  grantOf,
  isBusy,
  logIn,
  openIn,
  plainIo,
  request,
  socketsIn,
  tell,
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
    // Time stands still, so that no heartbeat is late on a busy machine.
    const nowMs = nodeSystem.monoMs();
    const one = await store({ system: { ...nodeSystem, monoMs: () => nowMs } });
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

  it("that are damaged are rejected at every call, and only they (P17, P19)", async () => {
    const one = await store();
    await grantOf(one, request("hurt", { label: "mark" }));
    await grantOf(one, request("healthy"));
    const bytes = readFileSync(logIn(dir.path));
    bytes[bytes.indexOf("mark")] = 0x21;
    writeFileSync(logIn(dir.path), bytes);
    const two = await store();
    const rejection = {
      code: "ERR_STORE_UNSAFE",
      key: "hurt",
      message: expect.stringMatching(/damaged/) as string,
    };
    await expect(two.attempt(request("hurt"), io)).rejects.toMatchObject(rejection);
    await expect(two.inspect("hurt", io)).rejects.toMatchObject(rejection);
    expect(await isBusy(two, request("healthy", { queue: false }))).toBe(true);
    expect(await listed(two)).toEqual(["healthy"]);
    expect(await two.check(io)).toContainEqual(
      expect.objectContaining({
        id: "damaged-records",
        level: "danger",
        what: expect.stringContaining("hurt") as string,
      }),
    );
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

it("hundreds of keys are taken together and released together (P9)", async () => {
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
      await (stores[i] as OpenStore).subscribe?.(asked[i] as never, () => woken.push(i));
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
    expect(next).toMatchObject({ validMs: 30_000 });
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

  it("are not disturbed by strangers who write nonsense to a socket", async () => {
    const one = await store();
    const socket = join(folderIn(dir.path), socketsIn(dir.path)[0] as string);
    const stranger = connect(socket);
    const ended = new Promise((resolve) => stranger.on("close", resolve));
    stranger.on("error", () => {});
    stranger.write('{"wake":1}\nnull\n[]\n{"revoked":{}}\n\u0000\n');
    stranger.write("x".repeat(100_000));
    await ended;
    await grantOf(one, request("k"));
  });

  it("see a release of which nobody notified them", async () => {
    const [one, two] = [await store(), await store()];
    const first = request("k");
    const { fences } = await grantOf(one, first);
    expect(await isBusy(two, request("k", { queue: false }))).toBe(true);
    await release(one, first, fences);
    const second = request("k", { queue: false });
    const next = await grantOf(two, second);
    // What `one` knows of the key is out of date now, and a decision over it changes nothing.
    expect(await isBusy(one, request("k", { queue: false }))).toBe(true);
    await release(two, second, next.fences);
    await grantOf(one, request("k", { queue: false }));
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
    await one.abandon([other], io);
    expect(await one.attempt(other, io)).toEqual({ ended: true });
  });
});

describe("clean-up", () => {
  it("forgets idle keys, and the fence still grows when the clock was set back (P3, P16, P21)", async () => {
    let aheadMs = 0;
    const one = await store({ system: { ...nodeSystem, wallMs: () => nodeSystem.wallMs() + aheadMs } });
    const kept = request("kept");
    await grantOf(one, kept);
    const first = logIn(dir.path);
    const idle = request("idle");
    const { fences: last } = await grantOf(one, idle);
    await release(one, idle, last);
    // Until the log was replaced: an idle key is not carried over.
    for (let i = 0; logIn(dir.path) === first; i += 1) {
      const each = request(`k${i % 50}`, { label: "l".repeat(200) });
      await release(one, each, (await grantOf(one, each)).fences);
    }
    expect(statSync(logIn(dir.path)).size).toBeLessThan(2_000);
    aheadMs = -3_600_000;
    const again = await grantOf(one, request("idle"));
    expect(again.fences[0]).toBeGreaterThan(last[0] as bigint);
    expect(await one.owns(kept, null, io)).toBe(true);
    expect(await isBusy(await store(), request("kept", { queue: false }))).toBe(true);
  });

  it("removes the sockets of dead processes that no record names", async () => {
    const one = await store();
    const named = await actor(dir.path);
    expect(await tell(named, "take", "k")).toEqual({ take: "granted" });
    const unnamed = await actor(dir.path);
    await Promise.all([named.end(), unnamed.end()]);
    expect(socketsIn(dir.path)).toHaveLength(3);
    const two = await store();
    await expect.poll(() => socketsIn(dir.path).length, { timeout: 60_000 }).toBe(3);
    await grantOf(two, request("k"));
    const three = await store();
    await expect.poll(() => socketsIn(dir.path).length, { timeout: 60_000 }).toBe(3);
    await grantOf(three, request("other"));
    expect(await isBusy(one, request("k"))).toBe(true);
  });

  it("closing leaves no file, socket, descriptor or handle (P16)", async () => {
    const before = descriptors();
    const [one, two] = [await openIn(dir.path), await openIn(dir.path)];
    const held: { request: ReturnType<typeof request>; fences: readonly bigint[] }[] = [];
    for (let i = 0; i < 400; i += 1) {
      const asked = request(`k${i}`);
      held.push({ request: asked, fences: (await grantOf(one, asked)).fences });
    }
    const waiting: ReturnType<typeof request>[] = [];
    for (let i = 0; i < 20; i += 1) {
      const asked = request(`k${i}`);
      waiting.push(asked);
      await two.subscribe?.(asked, () => {});
      expect(await isBusy(two, asked)).toBe(true);
    }
    expect(descriptors()).toBeLessThan(before + 20);
    for (const asked of held) await release(one, asked.request, asked.fences);
    for (const asked of waiting) await two.abandon([asked], io);
    await Promise.all([one.close(), two.close()]);
    await one.close();
    await expect.poll(descriptors, { timeout: 60_000 }).toBe(before);
    expect(readdirSync(folderIn(dir.path))).toEqual(["log.0", "spare"]);
    await expect(one.attempt(request("k"), io)).rejects.toMatchObject({
      code: "ERR_STORE_UNAVAILABLE",
      message: /closed/,
    });
  });
});

describe("files that somebody deletes while they are in use", () => {
  const item = (asked: ReturnType<typeof request>, fences: readonly bigint[]) => ({
    request: asked,
    cookie: null,
    ttlMs: 30_000,
    lastFences: fences,
    label: "x",
  });

  it.each([
    ["the log", () => unlinkSync(logIn(dir.path))],
    ["the folder", () => rmSync(folderIn(dir.path), { recursive: true })],
    ["everything", () => rmSync(dir.path, { recursive: true })],
  ])("%s: the holder learns of it at its next renewal, and the store goes on (P7)", async (_name, remove) => {
    const one = await store();
    const asked = request("k");
    const { fences } = await grantOf(one, asked);
    remove();
    expect(await one.renew([item(asked, fences)], io)).toEqual([{ state: "lost", reason: "gone" }]);
    await grantOf(one, request("k"));
    expect(await isBusy(await store(), request("k"))).toBe(true);
  });

  it.each([
    ["the log", false, () => unlinkSync(logIn(dir.path))],
    ["the folder", false, () => rmSync(folderIn(dir.path), { recursive: true })],
    ["the folder of a store in use", true, () => rmSync(folderIn(dir.path), { recursive: true })],
  ])("%s: the holder learns of it before its next renewal (P7)", async (_name, isUsed, remove) => {
    const one = await store();
    const lost: string[] = [];
    one.onLoss?.((id, reason) => lost.push(`${id} ${reason}`));
    const [asked, ended] = [request("k"), request("ended")];
    await grantOf(one, asked);
    await release(one, ended, (await grantOf(one, ended)).fences);
    remove();
    const two = await store();
    await grantOf(two, request("k"));
    if (isUsed) await grantOf(one, request("other"));
    await until("the loss", () => lost.length > 0);
    expect(lost[0]).toBe(`${asked.id} gone`);
    expect(lost).not.toContain(`${ended.id} gone`);
  });

  it("all of them: a lease that is held ends while another process has the key", async () => {
    const locks = createLocks(local({ dir: dir.path }));
    const lease = await locks.acquire("k", { ttl: "10m" });
    rmSync(folderIn(dir.path), { recursive: true });
    const others = createLocks(local({ dir: dir.path }));
    const next = await others.acquire("k");
    await until("the loss", () => lease.signal.aborted);
    expect([lease.held, next.held]).toEqual([false, true]);
    await others.close();
    await locks.close();
  });

  it("the socket: leases go on, and the store can be reached again", async () => {
    const one = await store();
    const asked = request("k");
    const { fences } = await grantOf(one, asked);
    for (const name of socketsIn(dir.path)) unlinkSync(join(folderIn(dir.path), name));
    expect(await one.renew([item(asked, fences)], io)).toEqual([{ state: "renewed", validMs: 30_000 }]);
    expect(socketsIn(dir.path)).toHaveLength(1);
    const two = await store();
    expect(await isBusy(two, request("k", { queue: false }))).toBe(true);
    expect(await release(one, asked, fences)).toBe("released");
    await grantOf(two, request("k"));
  });
});

describe("loading", () => {
  it("an open store does not keep its process alive (P16)", () => {
    const script = `import { local } from "./src/stores/local/index.ts";
      import { nodeSystem } from "./src/system/node.ts";
      const env = { namespace: "test", system: nodeSystem, allow: [] };
      await local({ dir: ${JSON.stringify(dir.path)} }).open(env);`;
    const run = spawnSync(process.execPath, ["--import", "tsx", "--input-type=module", "-e", script], {
      timeout: 100_000,
    });
    expect(run.status).toBe(0);
  });
});
