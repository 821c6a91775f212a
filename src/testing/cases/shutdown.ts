// Shutting down in the middle of work: nobody gets a key while a callback that has not been notified is
// running, and nothing is left behind (P1, P16).

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import type { Lease, LockLostError } from "../../index.ts";
import type { ApiCase, ProcessCase } from "../case.ts";
import { rejectsWith, required } from "../checks.ts";
import { waitFor, handled, LONG_WAIT_MS } from "../io.ts";
import { severalProcesses } from "../requirements.ts";

const DRAIN_MS = 300;
const FINISH_MS = 200;
const PROCESS_DRAIN_MS = 1_500;

export const shutdownCases: readonly ApiCase[] = [
  {
    id: "api/close-drain",
    sentence:
      "close lets callbacks finish within drain, and notifies those that go on before it releases their keys",
    promises: ["P1", "P16"],
    level: "api",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.locks(), await ctx.locks()];
      const [short, long] = [ctx.key("short"), ctx.key("long")];
      const log: string[] = [];
      let finish = (): void => {};
      const finished = handled(
        one.using(short, async () => {
          await new Promise<void>((resolve) => (finish = resolve));
          log.push("finished");
          return "done";
        }),
      );
      const cut = handled(
        one.using(long, (lease) => {
          lease.signal.addEventListener("abort", () => log.push("notified"));
          return new Promise(() => {});
        }),
      );
      const taken = async (): Promise<boolean> =>
        (await Promise.all([short, long].map((key) => two.inspect(key)))).every((info) => info !== null);
      await waitFor("both callbacks", taken, LONG_WAIT_MS);
      const next = async (key: string): Promise<Lease> => {
        const lease = await two.acquire(key, { wait: LONG_WAIT_MS });
        log.push(`next ${key}`);
        return lease;
      };
      const [afterShort, afterLong] = [handled(next(short)), handled(next(long))];
      for (const key of [short, long]) await ctx.untilWaiting(two, key);
      const closing = one.close({ drain: LONG_WAIT_MS });
      finish();
      assert.equal(await finished, "done");
      await (await afterShort).release();
      assert.deepEqual(log, ["finished", `next ${short}`], "the other callback was notified too early");
      await Promise.all([closing, one.close({ drain: DRAIN_MS })]);
      const error = await rejectsWith<LockLostError>("ERR_LOCK_LOST", cut);
      assert.equal(error.reason, "closed");
      await (await afterLong).release();
      assert.deepEqual(
        log.slice(2),
        ["notified", `next ${long}`],
        "the key went to another before the callback was notified",
      );
      for (const key of [short, long]) assert.equal(await two.inspect(key), null, "something is left behind");
    },
  },
];

export const shutdownProcessCases: readonly ProcessCase[] = [
  {
    id: "process/terminated",
    sentence:
      "a process that gets SIGTERM at work gives up its keys only after its callbacks ended or were notified",
    promises: ["P1", "P16"],
    level: "process",
    needs: [severalProcesses],
    async run(ctx) {
      const child = await ctx.child();
      const locks = await ctx.locks();
      const [short, long, plain] = [ctx.key("short"), ctx.key("long"), ctx.key("plain")];
      const log = ctx.file("log");
      await child.call("closeOnTerm", { drain: PROCESS_DRAIN_MS });
      await child.call("work", { key: short, log, finishMs: FINISH_MS });
      await child.call("work", { key: long, log });
      await child.call("acquire", { as: "lease", key: plain });
      const next = async (key: string): Promise<number> => {
        const lease = await locks.acquire(key, { wait: LONG_WAIT_MS });
        const atMs = ctx.nowMs();
        await lease.release();
        return atMs;
      };
      const waiting = [short, long, plain].map((key) => handled(next(key)));
      for (const key of [short, long, plain]) await ctx.untilWaiting(locks, key);
      child.terminate();
      const [shortMs, longMs] = await Promise.all(waiting);
      await child.exits();
      const wrote = readFileSync(log, "utf8").trim().split("\n");
      const atMs = (what: string, key: string): number =>
        Number(
          required(
            wrote.find((line) => line.startsWith(`${what} ${key} `)),
            `${what} of ${key}`,
          ).split(" ")[2],
        );
      assert.ok(
        required(shortMs, "a grant") >= atMs("finished", short),
        "the key was free before its callback finished",
      );
      assert.ok(
        required(longMs, "a grant") >= atMs("notified", long),
        "the key was free before its callback was notified",
      );
      assert.ok(
        !wrote.some((line) => line.startsWith(`notified ${short}`)),
        "a callback that finished in time was notified",
      );
      for (const key of [short, long, plain])
        assert.equal(await locks.inspect(key), null, "something is left behind");
    },
  },
];
