// What the command writes to a pipe arrives whole, and a reader that has gone ends `watch`.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createLocks, type Lease, type Locks } from "../../src/index.ts";
import { Sandbox } from "./fixture.ts";

/** Together several times what a pipe takes (64 KiB). */
const KEYS = 1_000;
const LABEL: string = "x".repeat(256);

let box: Sandbox;
let locks: Locks;
let leases: readonly Lease[];
beforeAll(async () => {
  box = new Sandbox();
  locks = createLocks(box.store);
  leases = await Promise.all(
    Array.from({ length: KEYS }, (_, i) => locks.acquire(`key-${i}`, { ttl: "10m", label: LABEL })),
  );
});
afterAll(async () => {
  await Promise.all(leases.map((lease) => lease.release()));
  await locks.close();
  await box.close();
});

const shell = (line: string): ReturnType<Sandbox["spawn"]> =>
  box.spawn("sh", ["-c", line], { HOLDFAST_STORE: box.store, NODE: process.execPath, MAIN: box.main });

describe("output to a pipe", () => {
  it("is not cut when the reader is slower than the writer", async () => {
    const { stdout } = await shell('"$NODE" "$MAIN" ls | { sleep 1; wc -l; }').ended;
    expect(Number(stdout)).toBe(KEYS + 1);
  });

  it("may lose its reader: ls ends", async () => {
    const { code, stdout, stderr } = await shell('"$NODE" "$MAIN" ls --json | head -1').ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout.trim().split("\n")).toHaveLength(1);
  });
});

describe("watch", () => {
  it("ends when its reader has gone, also if nothing changes any more", async () => {
    // One line fits into the pipe before the reader ends, so no write can fail afterwards.
    const { code, stdout } = await shell('"$NODE" "$MAIN" watch --prefix key-999 | head -1').ended;
    expect(code).toBe(0);
    expect(stdout).toContain("key-999");
  });

  it("ends when a write fails", async () => {
    const { code, stdout } = await shell('"$NODE" "$MAIN" watch --every 50ms | head -1').ended;
    expect(code).toBe(0);
    expect(stdout.trim().split("\n")).toHaveLength(1);
  });
});
