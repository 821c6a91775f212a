// A log of the local store that somebody else has written to, cut off or replaced.

import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createLocks, LockError, type Locks } from "../../../src/index.ts";
import { stepLine } from "../../../src/stores/local/log-format.ts";
import { complaints, damagedBytes, damagedJson } from "../../support/damage.ts";
import { runs } from "../../support/histories-count.ts";
import { answered } from "../../support/store-calls.ts";
import { folderIn, freshDir, logIn } from "./fixture.ts";

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

/** The log of a key that is held by one process and waited for by another. */
async function busyLog(): Promise<Buffer> {
  const lease = await locks.acquire("damaged");
  const waiting = createLocks(`local:${dir.path}`);
  const next = waiting.acquire("damaged", { wait: 60_000 });
  await expect
    .poll(async () => (await locks.inspect("damaged"))?.waiters?.length, { timeout: 60_000 })
    .toBe(1);
  const bytes = readFileSync(logIn(dir.path));
  await lease.release();
  await (await next).release();
  await waiting.close();
  return bytes;
}

it("bytes of any kind in the log are an error by name, or change nothing (P17, P19)", async () => {
  const real = await busyLog();
  await fc.assert(
    fc.asyncProperty(
      damagedBytes(() => real),
      async (bytes) => {
        writeFileSync(logIn(dir.path), bytes);
        const late = createLocks(`local:${dir.path}`);
        const outcome: unknown = await late.tryAcquire("damaged", { ttl: 6_000 }).then(
          (lease) => lease?.release(),
          (error: unknown) => error,
        );
        if (outcome instanceof Error) expect(LockError.is(outcome), outcome.stack).toBe(true);
        await late.close();
      },
    ),
    runs(60),
  );
  writeFileSync(logIn(dir.path), real);
});

it("something else than a record under a correct checksum rejects its key alone (P17)", async () => {
  const real = await busyLog();
  const at = real.lastIndexOf('{"key":"damaged"');
  const record = real.toString("utf8", at, real.indexOf("\n", at));
  await locks.using("fine", () => {});
  const closing: Promise<void>[] = [];
  await fc.assert(
    fc.asyncProperty(
      damagedJson(() => record),
      async (text) => {
        // The version that the line must name is that of the last line that counted: the log is made anew
        // each time.
        const line = stepLine("fuzz.1", [
          { key: '"damaged"', version: 0, text: text.replaceAll(/[\t\n]/g, " "), record: null },
        ]);
        const head = real.subarray(0, real.indexOf("\n", 1) + 1);
        writeFileSync(logIn(dir.path), Buffer.concat([head, line]));
        const late = createLocks(`local:${dir.path}`);
        expect(await complaints(late, "damaged", "fine")).toEqual([]);
        // Takes a call timeout, because what was rejected cannot be undone.
        closing.push(late.close());
      },
    ),
    runs(40),
  );
  await Promise.all(closing);
});

it("things that are no log, and files that are nobody's, do not stop others for ever", async () => {
  await locks.using("fine", () => {});
  const log = logIn(dir.path);
  const real = readFileSync(log);
  for (const plant of [
    () => mkdirSync(log),
    () => symlinkSync("/dev/null", log),
    () => symlinkSync("/nowhere/at/all", log),
    () => symlinkSync(log, log),
  ]) {
    rmSync(log, { recursive: true, force: true });
    plant();
    const late = createLocks(`local:${dir.path}`);
    await expect(answered(() => late.tryAcquire("k"))).rejects.toMatchObject({
      message: expect.stringContaining(log) as string,
    });
    await late.close();
  }
  rmSync(log, { recursive: true, force: true });
  writeFileSync(log, real);
  for (const name of [
    "stranger",
    ".hidden",
    "keys",
    "0".repeat(64),
    "log",
    "log.x",
    "draft.x",
    "0".repeat(12),
  ])
    writeFileSync(join(folderIn(dir.path), name), "?");
  const late = createLocks(`local:${dir.path}`);
  expect(await late.using("fine", (lease) => lease.held)).toBe(true);
  await late.close();
});
