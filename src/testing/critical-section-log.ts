// Checks the log of a fuzz test: critical sections must not overlap, and their fences must grow. Each
// section writes the lines `begin FENCE WHO` and `end FENCE WHO` itself.

import assert from "node:assert/strict";

export interface Verdict {
  readonly finished: number;
  /** Sections whose holder was killed. */
  readonly unfinished: number;
}

const violations = new WeakSet<object>();

/** Whether the failure proves a violation of P1 or P3, which a stall of the machine cannot explain. */
export function isViolation(error: unknown): boolean {
  return typeof error === "object" && error !== null && violations.has(error);
}

/**
 * `mortal` names the holders that may have been killed. Such tests have short leases, and a stall can end
 * one in the middle of a section. In other tests, a failure is marked as a violation.
 */
export function checkSections(lines: readonly string[], mortal: ReadonlySet<string> = new Set()): Verdict {
  try {
    return judgeLines(lines, mortal);
  } catch (error) {
    if (mortal.size === 0) violations.add(error as object);
    throw error;
  }
}

function judgeLines(lines: readonly string[], mortal: ReadonlySet<string>): Verdict {
  let open: { readonly fence: bigint; readonly who: string } | null = null;
  let last = 0n;
  let [finished, unfinished] = [0, 0];
  for (const line of lines) {
    const [what, number, who] = line.split(" ") as [string, string, string];
    const fence = BigInt(number);
    if (what === "begin") {
      if (open !== null) {
        assert.ok(
          mortal.has(open.who),
          `${who} (${fence}) entered while ${open.who} (${open.fence}) was inside`,
        );
        unfinished += 1;
      }
      assert.ok(fence > last, `the section of ${who} has fence ${fence}, the one before it had ${last}`);
      last = fence;
      open = { fence, who };
    } else {
      assert.deepEqual(open, { fence, who }, `${who} (${fence}) left a section that another one was in`);
      finished += 1;
      open = null;
    }
  }
  if (open !== null) {
    assert.ok(mortal.has(open.who), `${open.who} never left its section`);
    unfinished += 1;
  }
  return { finished, unfinished };
}
