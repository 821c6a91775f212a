// Names are exact: different keys never meet, equal keys always do, and what is listed is what was locked
// (P18).

import assert from "node:assert/strict";
import type { ContractCase } from "../case.ts";

const LONG = "k".repeat(4_095);

/** Each differs from another by something that a store could trim, fold, cut, split or take for syntax. */
export const AWKWARD_KEYS: readonly string[] = [
  "name",
  "Name",
  "name ",
  " name",
  "name\n",
  "name\r\n",
  "name\t",
  "name\0",
  "name\0x",
  "na",
  "name:",
  "name/",
  "/name",
  "name//x",
  "name/../name",
  ".",
  "..",
  "{name}",
  "{name",
  "na{me}x",
  "na{}me",
  "name*",
  "name?",
  "name%",
  "name_",
  "name\\",
  "name'",
  'name"',
  "name`; DROP TABLE name; --",
  "$name",
  "%6e%61me",
  "caf\u00e9",
  "cafe\u0301",
  "cafe",
  "CAFÉ",
  "stra\u00dfe",
  "strasse",
  "\u212b",
  "\u00c5",
  "\u{1f512}",
  "\u{1f512}\u{fe0f}",
  "\u{1f469}\u200d\u{1f4bb}",
  "\u200bname",
  "\ufeffname",
  "0",
  "00",
  "-0",
  "null",
  "__proto__",
  "constructor",
  `${LONG}a`,
  `${LONG}b`,
  LONG,
  "\u00e9".repeat(2_048),
];

export const nameCases: readonly ContractCase[] = [
  {
    id: "names/exact",
    sentence: "keys that look alike are different locks, and equal keys meet",
    promises: ["P18"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      for (const key of AWKWARD_KEYS)
        await ctx.client(one, key, { label: JSON.stringify(key).slice(0, 40) }).acquire();
      for (const key of AWKWARD_KEYS) {
        const label = `second of ${JSON.stringify(key).slice(0, 40)}`;
        await ctx.client(two, key, { label, queue: false }).expectBusy();
      }
    },
  },
  {
    id: "names/listed",
    sentence: "every key comes back from list and inspect exactly as it was given",
    promises: ["P18"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const [one, two] = [await ctx.open(), await ctx.open()];
      for (const key of AWKWARD_KEYS) await ctx.client(one, key).acquire();
      const listed = (await ctx.list(two)).map((info) => info.key);
      assert.equal(listed.length, AWKWARD_KEYS.length);
      assert.deepEqual(new Set(listed), new Set(AWKWARD_KEYS));
      for (const key of AWKWARD_KEYS) assert.equal((await ctx.inspect(two, key))?.key, key);
    },
  },
  {
    id: "names/namespaces",
    sentence: "namespaces do not meet, even where one begins like the other",
    promises: ["P18"],
    level: "contract",
    needs: [],
    async run(ctx) {
      const names = [ctx.namespace, `${ctx.namespace}.`, `${ctx.namespace}-x`, ctx.namespace.slice(0, -1)];
      const key = ctx.key();
      for (const name of names) {
        const store = await ctx.open(name);
        const client = ctx.client(store, key, { label: name });
        await client.acquire();
        assert.equal((await ctx.list(store)).length, 1);
        assert.equal((await ctx.inspect(store, key))?.holders[0]?.label, name);
      }
    },
  },
];
