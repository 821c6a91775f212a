// Read locks: readers beside readers, never beside a writer, and neither side starves the other.

import assert from "node:assert/strict";
import type { ContractCase } from "../case.ts";
import { fifo, kind } from "../needs.ts";

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
      const a = ctx.party(one, key, { mode: "shared", label: "a" });
      const b = ctx.party(two, key, { mode: "shared", label: "b" });
      await a.take();
      await b.take();
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
      const readers = [one, two].map((store) => ctx.party(store, key, { mode: "shared", label: "reader" }));
      const writer = ctx.party(two, key, { label: "writer", queue: false });
      for (const reader of readers) await reader.take();
      await writer.refused();
      await readers[0]?.release();
      await writer.refused();
      await readers[1]?.release();
      await writer.take();
      await ctx.party(one, key, { mode: "shared", label: "late reader", queue: false }).refused();
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
      const reader = ctx.party(one, key, { mode: "shared", label: "reader" });
      const writer = ctx.party(two, key, { label: "writer" });
      const late = ctx.party(one, key, { mode: "shared", label: "late reader" });
      const hasty = ctx.party(one, key, { mode: "shared", label: "hasty reader", queue: false });
      await reader.take();
      await writer.refused();
      await late.refused();
      await hasty.refused();
      await reader.release();
      assert.equal((await ctx.first([late, writer], ctx.guarantees.pollMs)).request.label, "writer");
      await writer.release();
      await late.take();
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
      const first = ctx.party(one, key, { label: "first writer" });
      const readers = [one, two].map((store) => ctx.party(store, key, { mode: "shared", label: "reader" }));
      const second = ctx.party(two, key, { label: "second writer" });
      await first.take();
      for (const reader of readers) await reader.refused();
      await second.refused();
      await first.release();
      for (const reader of readers) {
        await second.refused();
        await reader.take();
      }
      for (const reader of readers) await reader.release();
      await second.take();
    },
  },
];
