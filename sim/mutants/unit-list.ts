// Mistakes that no history of a lock shows, such as memory that grows. Each must make a unit test fail.

import type { Mutant } from "./list.ts";

export interface UnitMutant extends Pick<Mutant, "name" | "file" | "edits"> {
  /** The test files, one of which must fail. */
  readonly tests: readonly string[];
}

const ABANDONMENT = ["src/core/abandonment.test.ts"];

export const unitMutants: readonly UnitMutant[] = [
  {
    name: "the list of pending ids has no bound",
    file: "core/abandonment.ts",
    edits: [
      {
        find: "    if (this.#byId.size >= MOST_PENDING) this.#dropFirstToEnd();\n",
        put: "    if (this.#byId.size < 0) this.#dropFirstToEnd();\n",
      },
    ],
    tests: ABANDONMENT,
  },
  {
    name: "a full list drops the id whose lease lasts longest",
    file: "core/abandonment.ts",
    edits: [
      {
        find: "    this.#ends.set(pending, pending.overAtMs);\n",
        put: "    this.#ends.set(pending, -pending.overAtMs);\n",
      },
    ],
    tests: ABANDONMENT,
  },
  {
    name: "full batches are not paced",
    file: "core/abandonment.ts",
    edits: [{ find: "const PACE_MS = 50;", put: "const PACE_MS = 0;" }],
    tests: ABANDONMENT,
  },
  {
    name: "an attempt that was not sent is abandoned",
    file: "core/single-attempt.ts",
    edits: [
      { find: "    if (isUnsent(error)) deps", put: "    if (isUnsent(error) && error === null) deps" },
    ],
    tests: ABANDONMENT,
  },
  {
    name: "a waiter that was not sent is abandoned",
    file: "core/acquire.ts",
    edits: [{ find: "  #maybeSent = false;\n", put: "  #maybeSent = true;\n" }],
    tests: ABANDONMENT,
  },
  {
    name: "a repeated call counts as not sent because its last try was not",
    file: "core/call.ts",
    edits: [{ find: "        if (isUnsent(again)) continue;\n", put: "" }],
    tests: ABANDONMENT,
  },
  {
    name: "a silent store is sent every call",
    file: "core/call.ts",
    edits: [{ find: "    if (this.#timeouts < SILENT_TIMEOUTS ||", put: "    if (this.#timeouts < 1e9 ||" }],
    tests: ABANDONMENT,
  },
];
