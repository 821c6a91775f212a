// Read locks: readers beside readers, never beside a writer, and neither side starves the other.

import assert from "node:assert/strict";
import type { ContractCase } from "../case.ts";
import { fifo, kind } from "../requirements.ts";

export const sharedCases: readonly ContractCase[] = [
  {
    id: "shared/beside",
    sentence: "readers hold beside each other",
    promises: ["P1"],
    level: "contract",
    needs: [kind("shared")],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const a = ctx.client(one, key, { mode: "shared", label: "a" });
      const b = ctx.client(two, key, { mode: "shared", label: "b" });
      await a.acquire();
      await b.acquire();
      assert.deepEqual([await a.owns(), await b.owns()], [true, true]);
      assert.equal((await ctx.inspect(one, key))?.holders.length, 2);
      assert.equal(await a.release(), "released");
      assert.equal(await b.owns(), true);
    },
  },
  {
    id: "shared/excludes",
    sentence: "a writer is refused beside a reader and a reader beside a writer",
    promises: ["P1"],
    level: "contract",
    needs: [kind("shared")],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const readers = [one, two].map((store) => ctx.client(store, key, { mode: "shared", label: "reader" }));
      const writer = ctx.client(two, key, { label: "writer", queue: false });
      for (const reader of readers) await reader.acquire();
      await writer.expectBusy();
      await readers[0]?.release();
      await writer.expectBusy();
      await readers[1]?.release();
      await writer.acquire();
      await ctx.client(one, key, { mode: "shared", label: "late reader", queue: false }).expectBusy();
    },
  },
  {
    id: "shared/writer-not-starved",
    sentence: "a reader that comes after a waiting writer waits behind it",
    promises: ["P12"],
    level: "contract",
    needs: [kind("shared"), fifo],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const reader = ctx.client(one, key, { mode: "shared", label: "reader" });
      const writer = ctx.client(two, key, { label: "writer" });
      const late = ctx.client(one, key, { mode: "shared", label: "late reader" });
      const hasty = ctx.client(one, key, { mode: "shared", label: "hasty reader", queue: false });
      await reader.acquire();
      await writer.expectBusy();
      await late.expectBusy();
      await hasty.expectBusy();
      await reader.release();
      assert.equal((await ctx.firstGranted([late, writer], ctx.guarantees.pollMs)).request.label, "writer");
      await writer.release();
      await late.acquire();
    },
  },
  {
    id: "shared/readers-not-starved",
    sentence: "readers that wait between two writers go together after the first and before the second",
    promises: ["P12"],
    level: "contract",
    needs: [kind("shared"), fifo],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      const key = ctx.key();
      const first = ctx.client(one, key, { label: "first writer" });
      const readers = [one, two].map((store) => ctx.client(store, key, { mode: "shared", label: "reader" }));
      const second = ctx.client(two, key, { label: "second writer" });
      await first.acquire();
      for (const reader of readers) await reader.expectBusy();
      await second.expectBusy();
      await first.release();
      for (const reader of readers) {
        await second.expectBusy();
        await reader.acquire();
      }
      for (const reader of readers) await reader.release();
      await second.acquire();
    },
  },
];
