// Mistakes in the redlock store and in the scripts of its nodes.

import type { Mutant } from "./list.ts";

export const redlockMutants: readonly Mutant[] = [
  {
    name: "half of the nodes are a majority",
    store: "redlock",
    file: "stores/redlock/quorum.ts",
    edits: [{ find: "return Math.floor(nodes / 2) + 1;", put: "return Math.max(1, Math.floor(nodes / 2));" }],
    killers: ["exclusion", "fences"],
  },
  {
    name: "a node accepts a smaller fence",
    store: "redlock",
    file: "stores/redlock/scripts/votes.lua",
    edits: [
      {
        find: "if fence <= c or fence <= floor or",
        put: "if fence == c or",
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
    file: "stores/redlock/scripts/adopt.lua",
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
    file: "stores/redlock/renewals.ts",
    edits: [
      {
        find: 'if (words.filter(({ state }) => state === "renewed").length >= majority)',
        put: 'if (words.filter(({ state }) => state === "renewed").length >= 1)',
      },
    ],
    killers: ["exclusion", "noRevival"],
  },
];
