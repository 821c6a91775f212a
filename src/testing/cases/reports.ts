// What a store tells people: inspect, list, notes and findings.

import assert from "node:assert/strict";
import type { ContractCase } from "../case.ts";
import { makeIo } from "../io.ts";
import { leases } from "../requirements.ts";
import { onlyHolder } from "../test-client.ts";

export const reportCases: readonly ContractCase[] = [
  {
    id: "reports/inspect",
    sentence:
      "inspect shows holder and waiters with what they said of themselves, and null when the key is free",
    promises: ["P17"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      assert.equal(await ctx.inspect(two, key), null);
      const a = ctx.client(one, key, { label: "büro 1 ☎" });
      const b = ctx.client(two, key, { label: "b" });
      await a.acquire();
      const busy = await b.expectBusy();
      const info = await ctx.inspect(two, key);
      assert.equal(info?.key, key);
      const holder = onlyHolder(info?.holders);
      assert.equal(holder.label, "büro 1 ☎");
      assert.equal(holder.mode, "exclusive");
      assert.equal(holder.permits, 1);
      assert.equal(holder.fence, a.fence);
      assert.deepEqual(
        [holder.kept ?? false, holder.revoked, holder.waitingFor],
        [false, undefined, undefined],
      );
      if (busy.holders !== undefined) assert.equal(onlyHolder(busy.holders).label, "büro 1 ☎");
      if (info?.waiters)
        assert.deepEqual(
          info.waiters.map((waiter) => waiter.label),
          ["b"],
        );
      await b.abandon();
      await a.release();
      assert.equal(await ctx.inspect(two, key), null);
    },
  },
  {
    id: "reports/remaining",
    sentence: "inspect shows how long a lease has been held and how long it would still last",
    promises: ["P17"],
    level: "contract",
    needs: [leases],
    async run(ctx) {
      const store = await ctx.open();
      const key = ctx.key();
      const a = ctx.client(store, key, { label: "a", ttlMs: 10_000, graceMs: 100 });
      const grant = await a.acquire();
      await ctx.pass(200);
      const holder = onlyHolder((await ctx.inspect(store, key))?.holders);
      assert.ok(holder.heldMs >= 150 && holder.heldMs <= 200 + ctx.slackMs, `held for ${holder.heldMs} ms`);
      const mostMs = grant.validMs + 100 - 150;
      assert.ok(holder.remainingMs > 0 && holder.remainingMs <= mostMs, `${holder.remainingMs} ms remain`);
    },
  },
  {
    id: "reports/expired",
    sentence: "a lease that ran out is neither inspected nor listed",
    promises: ["P16"],
    level: "contract",
    needs: [leases],
    async run(ctx) {
      const store = await ctx.open();
      const key = ctx.key();
      const a = ctx.client(store, key, { ttlMs: 150 });
      await a.acquire();
      await ctx.expire(a);
      assert.equal(await ctx.inspect(store, key), null);
      assert.deepEqual(await ctx.list(store), []);
    },
  },
  {
    id: "reports/note",
    sentence: "a note shows what a holder waits for until it is cleared",
    promises: ["P15"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const a = ctx.client(one, key, { label: "a" });
      await a.acquire();
      await a.note({ waitingFor: "other/ключ" });
      assert.equal(onlyHolder((await ctx.inspect(two, key))?.holders).waitingFor, "other/ключ");
      // As long as a note may be, and JSON as core writes it.
      const long = JSON.stringify(["é\n\"'", "k".repeat(4_060)]);
      await a.note({ waitingFor: long });
      assert.equal(onlyHolder((await ctx.inspect(two, key))?.holders).waitingFor, long);
      await a.note(null);
      assert.equal(onlyHolder((await ctx.inspect(two, key))?.holders).waitingFor, undefined);
    },
  },
  {
    id: "reports/stale-note",
    sentence: "a note of an id that does not hold is written nowhere",
    promises: ["P5"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const store = await ctx.open();
      const key = ctx.key();
      const a = ctx.client(store, key, { label: "a" });
      const b = ctx.client(store, key, { label: "b" });
      await a.acquire();
      await a.release();
      await b.acquire();
      await a.note({ waitingFor: "elsewhere" }).catch(() => {});
      assert.equal(onlyHolder((await ctx.inspect(store, key))?.holders).waitingFor, undefined);
    },
  },
  {
    id: "reports/list",
    sentence: "list gives every lock that is held, by prefix and up to the limit",
    promises: ["P17", "P18"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const keys = ["a/1", "a/2", "a%1", "a_1", "a*1", "a[1]", "A/1", "b"];
      for (const key of keys) await ctx.client(one, key).acquire();
      const names = async (prefix: string): Promise<string[]> =>
        (await ctx.list(two, prefix)).map((info) => info.key).sort();
      assert.deepEqual(await names(""), [...keys].sort());
      assert.deepEqual(await names("a/"), ["a/1", "a/2"]);
      for (const prefix of ["a%", "a_", "a*", "a[", "A", "b"]) {
        assert.deepEqual(
          await names(prefix),
          keys.filter((key) => key.startsWith(prefix)),
        );
      }
      assert.deepEqual(await names("nobody"), []);
      assert.equal((await ctx.list(two, "", 3)).length, 3);
    },
  },
  {
    id: "reports/check",
    sentence: "check gives findings that say what, why and how to fix it",
    promises: ["P19"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const store = await ctx.open();
      for (const finding of await store.check(makeIo())) {
        assert.match(finding.level, /^(info|warning|danger)$/);
        for (const text of [finding.id, finding.what, finding.why, finding.fix]) assert.notEqual(text, "");
      }
    },
  },
];
