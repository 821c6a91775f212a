// A server of an ensemble that shows nodes which the others have deleted. ZooKeeper before 3.9.4 can become
// like that by itself; here it is given an older tree under a newer name.

import { readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freePort } from "../../../scripts/servers/ports.ts";
import {
  type Ensemble,
  fourLetters,
  startEnsemble,
  startZooKeeper,
} from "../../../scripts/servers/zookeeper.ts";
import type { OpenStore } from "../../../src/core/store.ts";
import { zookeeper } from "../../../src/stores/zookeeper/index.ts";
import { nodeSystem } from "../../../src/system/node.ts";
import { fencesOf, io, request, until } from "./fixture.ts";

/** Sessions of both stores; also how long a waiter believes its server before the leader is asked. */
const SESSION_MS = 2_000;
/** A session timeout to doubt, a reconnection, and a look: the aim is three seconds. */
const LONGEST_MS = 30_000;

let ensemble: Ensemble;
const opened: OpenStore[] = [];

/** Begins at the first of these servers. */
const open = async (...ports: readonly number[]): Promise<OpenStore> => {
  const servers = ports.map((port) => `127.0.0.1:${port}`);
  const store = await zookeeper({ servers, sessionTimeout: SESSION_MS }).open({
    namespace: "t",
    system: { ...nodeSystem, random: () => 0 },
    allow: [],
  });
  opened.push(store);
  return store;
};

beforeAll(async () => {
  ensemble = await startEnsemble(3);
});

afterAll(async () => {
  await Promise.all(opened.map((store) => store.close()));
  await ensemble?.stop();
});

/** Its last transaction, as the file of a snapshot would name it. */
async function lastOf(port: number): Promise<string> {
  return /^Zxid: 0x(\w+)$/m.exec(await fourLetters(port, "srvr"))?.[1] ?? "";
}

/** All that a server has on disk, in one snapshot. */
async function condense(folder: string): Promise<void> {
  const alone = await startZooKeeper({ own: true, port: await freePort(), dataFolder: folder });
  await alone.stop();
}

/** What it has is from now on said to be the state after `transaction`. */
function rename(folder: string, transaction: string): void {
  const files = join(folder, "version-2");
  const number = (name: string): number => parseInt(name.slice("snapshot.".length), 16);
  const snapshots = readdirSync(files).filter((name) => name.startsWith("snapshot."));
  const newest = snapshots.toSorted((a, b) => number(a) - number(b)).at(-1) ?? "";
  for (const name of readdirSync(files)) if (name.startsWith("log.")) rmSync(join(files, name));
  renameSync(join(files, newest), join(files, `snapshot.${transaction}`));
}

describe("a server that shows what the others have deleted", () => {
  it("is left by whoever asks or waits there, and keeps no key from anybody (P10)", async () => {
    const leader = await ensemble.leader();
    const [bad, good] = ensemble.members.filter((member) => member !== leader);
    if (bad === undefined || good === undefined) throw new Error("no followers");
    const holder = await open(good.port);
    const held = ["waited for", "tried"].map((key) => request(key));
    const fences = [];
    for (const one of held) fences.push(await fencesOf(holder, one));
    const [before] = fences as [readonly bigint[]];
    await until(
      "the places on all servers",
      async () => (await lastOf(bad.port)) === (await lastOf(good.port)),
    );
    bad.kill("SIGKILL");
    await condense(bad.folder);
    for (const [at, one] of held.entries())
      await holder.release(one, null, { lastFences: fences[at] ?? [] }, io);
    rename(bad.folder, await lastOf(good.port));
    await bad.restart();
    await ensemble.settled();

    const misled = await open(bad.port);
    expect((await misled.inspect("tried", io))?.holders).toHaveLength(1);
    expect(await holder.inspect("tried", io)).toBe(null);
    const only = misled.attempt(request("tried", { queue: false }), io);
    await expect(only).rejects.toThrow(/shows nodes that its leader does not have/);

    const asking = await open(bad.port, good.port);
    expect(await asking.attempt(request("tried", { queue: false }), io)).toHaveProperty("granted");

    const waiting = await open(bad.port, good.port);
    let one = request("waited for");
    expect(await waiting.attempt(one, io)).toHaveProperty("busy");
    let fence = 0n;
    await until(
      "its turn",
      async () => {
        await io.sleep(SESSION_MS / 4);
        one = { ...one, seq: one.seq + 1 };
        const answer = await waiting.attempt(one, io);
        if ("granted" in answer) fence = answer.granted.fences[0] as bigint;
        return "granted" in answer;
      },
      LONGEST_MS,
    );
    expect(fence).toBeGreaterThan(before[0] as bigint);
  });
});
