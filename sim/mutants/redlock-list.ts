// Mistakes in the redlock store and in the scripts of its nodes.

import type { Mutant } from "./list.ts";

export const redlockMutants: readonly Mutant[] = [
  {
    name: "half of the nodes are a majority",
    store: "redlock",
    file: "stores/redlock/quorum-call.ts",
    edits: [{ find: "return Math.floor(nodes / 2) + 1;", put: "return Math.max(1, Math.floor(nodes / 2));" }],
    killers: ["exclusion", "fences"],
  },
  {
    name: "a node accepts a smaller fence",
    store: "redlock",
    file: "stores/redlock/scripts/batch.lua",
    edits: [
      {
        find: "if text and fence <= tonumber(sub(text, 5))",
        put: "if text and fence == tonumber(sub(text, 5))",
      },
      {
        find: "if fence <= c then return { 'low', whole(c)",
        put: "if fence == c then return { 'low', whole(c)",
      },
    ],
    killers: ["fences"],
  },
  {
    name: "a node that forgot votes at once",
    store: "redlock",
    file: "stores/redlock/scripts/register.lua",
    edits: [
      {
        find: "mark, quarantine = '~', string.format('r%.0f', wallUs)",
        put: "mark, quarantine = '+', string.format('r%.0f', wallUs)",
      },
    ],
    killers: ["exclusion", "fences"],
  },
  {
    name: "one node is enough for a renewal",
    store: "redlock",
    file: "stores/redlock/renew.ts",
    edits: [
      {
        find: 'if (states.filter(({ state }) => state === "renewed").length >= majority)',
        put: 'if (states.filter(({ state }) => state === "renewed").length >= 1)',
      },
    ],
    killers: ["exclusion", "noRevival"],
  },
];
