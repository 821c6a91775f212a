// Mistakes in the redis store and in its scripts. The scripts are changed as they are written, and run as they are.

import type { Mutant } from "./list.ts";

const RULES = "stores/redis/scripts/rules.lua";
const ATTEMPT = "stores/redis/scripts/attempt.lua";

export const redisMutants: readonly Mutant[] = [
  {
    name: "a grant whose reply was lost is not given to who asks again",
    store: "redis",
    file: ATTEMPT,
    edits: [
      {
        find: "  local rows = rowsOf(found, id)\n  if rows then return rearm(rows) end\n  for _, it in ipairs(found) do\n    if find(it.holders, id) then",
        put: "  local rows = rowsOf(found, id)\n  for _, it in ipairs(found) do\n    if not rows and find(it.holders, id) then",
      },
      {
        find: "  rows = rowsOf(found, id)\n  if rows then",
        put: "  local before = rows\n  rows = rowsOf(found, id)\n  if rows and not before then",
      },
    ],
    killers: ["recovery", "wakeUp", "leftovers"],
  },
  {
    name: "who asks again is told its ttl, and the record is not",
    store: "redis",
    file: ATTEMPT,
    edits: [
      {
        find: "for _, row in ipairs(rows) do row.ends = math.max(row.ends, now + ttlMs + graceMs) end",
        put: "for _, row in ipairs(rows) do row.ends = math.max(row.ends, row.since) end",
      },
    ],
    killers: ["windowHonesty", "exclusion"],
  },
  {
    name: "what has ended is not remembered",
    store: "redis",
    file: RULES,
    edits: [
      {
        find: "return (mark and turn < mark[1]) or it.gone[id] ~= nil",
        put: "return mark and turn < 0",
      },
    ],
    killers: ["recovery", "leftovers", "wakeUp"],
  },
  {
    name: "numbers that were used are given out again",
    store: "redis",
    file: RULES,
    edits: [
      {
        find: "math.min(top, math.max(row.fence, row.used, used))",
        put: "math.min(top, row.fence - 1)",
      },
      {
        find: "local fence = math.max(it.last + 1, wallUs)",
        put: "local fence = it.last == 0 and wallUs or it.last + 1",
      },
    ],
    killers: ["fences"],
  },
];
