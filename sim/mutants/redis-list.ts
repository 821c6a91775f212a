// Mistakes in the redis store and in its scripts. The scripts are changed as they are written, and run as they
// are.

import type { Mutant } from "./list.ts";

const RECORD = "stores/redis/scripts/record.lua";
const LEDGER = "stores/redis/scripts/ledger.lua";

export const redisMutants: readonly Mutant[] = [
  {
    name: "a grant whose reply was lost is not given to who asks again",
    store: "redis",
    file: LEDGER,
    edits: [
      {
        find: "  if held and not revoked then\n    local answer",
        put: "  if held and not revoked and request.queue == nil then\n    local answer",
      },
    ],
    killers: ["recovery", "wakeUp", "leftovers", "windowHonesty"],
  },
  {
    name: "who asks again is told its ttl, and the record is not",
    store: "redis",
    file: LEDGER,
    edits: [
      {
        find: "row.ends, row.rest = math.max(row.ends, wall + request.hold), request.rest",
        put: "row.ends, row.rest = math.max(row.ends, row.since), request.rest",
      },
    ],
    killers: ["windowHonesty", "exclusion"],
  },
  {
    name: "numbers that were used are given out again",
    store: "redis",
    file: LEDGER,
    edits: [
      {
        find: "  if top > row.fence then raise(it, top) end",
        put: "  if top < row.fence then raise(it, top) end",
      },
      {
        file: RECORD,
        find: "  local fence = math.max(wall, floorOf(it) + 1)",
        put: "  local fence = floorOf(it) == 0 and wall or floorOf(it) + 1",
      },
      {
        file: "stores/redis/scripts/fast-path.lua",
        find: "fence = last and last >= wall and fmt('%016.0f', last + 1) or now",
        put: "fence = last and fmt('%016.0f', last + 1) or now",
      },
    ],
    killers: ["fences"],
  },
  {
    name: "a waiter takes a key that is reserved for the one before it",
    store: "redis",
    file: LEDGER,
    edits: [
      {
        find: "        mine = waiter and waiter.id == id and fits(it, request)",
        put: "        mine = waiter and fits(it, request)",
      },
    ],
    killers: ["order"],
  },
  {
    name: "a call that nobody answers is waited for without end",
    store: "redis",
    file: LEDGER,
    edits: [
      {
        find: "        if beat.called > 0 and beat.called < wall and beat.flag ~= 'm' then",
        put: "        if beat.called > 0 and beat.called < 0 and beat.flag ~= 'm' then",
      },
      {
        find: "      if not beat or not got[2] or beat.promised < wall then",
        put: "      if not beat or not got[2] then",
      },
    ],
    killers: ["recovery", "wakeUp"],
  },
];
