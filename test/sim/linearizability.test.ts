// The linearizability checker: what it finds in planted histories, and that it agrees with an exhaustive
// search on small ones.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { linearizability } from "../../sim/checkers/linearizability.ts";
import type { Ask, History, HistoryEvent, RunContext } from "../../sim/history.ts";

const context: RunContext = {
  forgetful: false,
  handOffBlurMs: 0,
  calm: true,
  roundTripMs: 0,
  fifo: true,
  pollMs: 250,
  claimMs: 1_000,
  slackMs: 0,
  abandonMs: 100,
  freeAfterCrashMs: (ttlMs) => ttlMs,
  callTimeoutMs: () => 1_000,
};

/** A request for the key "k", and what became of it. */
interface Use {
  readonly ask: number;
  readonly granted?: number;
  readonly refused?: number;
  readonly code?: string;
  readonly fence?: number;
  readonly lettingGo?: number;
  readonly released?: number;
  readonly lost?: number;
  readonly crashed?: number;
  readonly more?: Partial<Ask>;
}

const REMAINING_MS = 1_000_000;

function eventsOf(use: Use, at: number): HistoryEvent[] {
  const [client, lease] = [`c${at}`, `k@${use.fence}`];
  const base = { keys: ["k"], mode: "exclusive", permits: 1, limit: 1, ttlMs: 1_000, waitMs: 0 } as const;
  const events: (HistoryEvent | null)[] = [
    { type: "ask", at: use.ask, client, ask: client, ...base, ...use.more },
    use.granted === undefined
      ? null
      : {
          type: "granted",
          at: use.granted,
          client,
          ask: client,
          lease,
          fences: [String(use.fence)],
          remainingMs: REMAINING_MS,
        },
    use.refused === undefined
      ? null
      : { type: "refused", at: use.refused, client, ask: client, code: use.code ?? "busy" },
    use.lettingGo === undefined ? null : { type: "letting-go", at: use.lettingGo, client, lease },
    use.released === undefined ? null : { type: "released", at: use.released, client, lease, answer: true },
    use.lost === undefined ? null : { type: "lost", at: use.lost, client, lease },
    use.crashed === undefined ? null : { type: "crashed", at: use.crashed, client },
  ];
  return events.filter((event) => event !== null);
}

function historyOf(uses: readonly Use[], more: Partial<RunContext> = {}): History {
  const events = uses.flatMap(eventsOf);
  return { events: events.sort((a, b) => a.at - b.at), context: { ...context, ...more } };
}

const verdict = (uses: readonly Use[], more: Partial<RunContext> = {}): string[] =>
  linearizability(historyOf(uses, more)).map(({ what }) => what);

const readers = { mode: "shared" } as const;
const permits = (count: number): Partial<Ask> => ({ limit: 3, permits: count });

describe("linearizability", () => {
  const first: Use = { ask: 0, granted: 10, fence: 1, lettingGo: 100, released: 110 };

  it.each<[string, readonly Use[]]>([
    ["a grant while a release is under way", [first, { ask: 20, granted: 105, fence: 2 }]],
    [
      "a grant after a loss",
      [
        { ...first, lettingGo: 300, lost: 50 },
        { ask: 20, granted: 60, fence: 2 },
      ],
    ],
    [
      "a grant after a crash",
      [
        { ask: 0, granted: 10, fence: 1, crashed: 20 },
        { ask: 5, granted: 30, fence: 2 },
      ],
    ],
    [
      "grants that were answered in another order",
      [
        { ...first, granted: 70, lettingGo: 71 },
        { ask: 0, granted: 200, fence: 5 },
      ],
    ],
    [
      "readers together",
      [
        { ...first, more: readers },
        { ask: 5, granted: 20, fence: 2, more: readers },
      ],
    ],
    [
      "permits within the limit",
      [
        { ...first, more: permits(1) },
        { ask: 5, granted: 20, fence: 2, more: permits(2) },
      ],
    ],
    ["busy beside a holder", [first, { ask: 20, refused: 30 }]],
    ["busy while a release is under way", [first, { ask: 105, refused: 120 }]],
    [
      "busy after a crash with an unknown outcome",
      [
        { ask: 0, crashed: 5 },
        { ask: 900, refused: 910 },
      ],
    ],
    [
      "busy after a lease that was lost",
      [
        { ask: 0, granted: 10, fence: 1, lost: 50 },
        { ask: 90, refused: 95 },
      ],
    ],
  ])("accepts %s", (_, uses) => expect(verdict(uses)).toEqual([]));

  it.each<[string, readonly Use[], RegExp]>([
    ["two holders", [first, { ask: 20, granted: 60, fence: 2 }], /no order .* explains k@2 beside k@1/],
    [
      "a reader beside a holder",
      [first, { ask: 20, granted: 60, fence: 2, more: readers }],
      /k@2 beside k@1/,
    ],
    [
      "more permits than the limit",
      [
        { ...first, more: permits(2) },
        { ask: 5, granted: 20, fence: 2, more: permits(2) },
      ],
      /k@2 beside k@1/,
    ],
    [
      "a lock beside permits",
      [
        { ...first, more: permits(1) },
        { ask: 5, granted: 20, fence: 2 },
      ],
      /k@2 beside k@1/,
    ],
    [
      "fences in reverse",
      [
        { ...first, fence: 7 },
        { ask: 120, granted: 130, fence: 3 },
      ],
      /k@7 beside k@3/,
    ],
    [
      "fences in reverse across a third grant",
      [
        { ask: 0, granted: 10, fence: 9, lettingGo: 12, released: 13, more: readers },
        { ask: 0, granted: 50, fence: 5, more: readers },
        { ask: 20, granted: 30, fence: 4, more: readers },
      ],
      /k@9/,
    ],
    ["busy, and nobody there", [first, { ask: 120, refused: 130 }], /c1 was told that k is busy/],
    ["busy, alone", [{ ask: 0, refused: 10 }], /c0 was told/],
  ])("finds %s", (_, uses, what) => {
    expect(verdict(uses)).toEqual([expect.stringMatching(what)]);
    // The declared weakness of a store excuses all of it.
    expect(verdict(uses, { forgetful: true })).toEqual([]);
  });

  const small = fc.array(
    fc.record({
      times: fc.array(fc.nat(30), { minLength: 4, maxLength: 4 }),
      end: fc.constantFrom("released", "lost", "crashed"),
      more: fc.constantFrom<Partial<Ask>>({}, {}, readers, permits(1), permits(2)),
    }),
    { minLength: 2, maxLength: 4 },
  );

  it("agrees with an exhaustive search", () => {
    const seen = { good: 0, bad: 0 };
    fc.assert(
      fc.property(small, fc.infiniteStream(fc.nat(1_000)), (drawn, order) => {
        const ranks = drawn.map(() => order.next().value as number);
        const fences = ranks.map(
          (rank, i) => 1 + ranks.filter((one, j) => one < rank || (one === rank && j < i)).length,
        );
        const uses = drawn.map(({ times, end, more }, i): Use => {
          const [ask = 0, granted = 0, from = 0, to = 0] = times.toSorted((a, b) => a - b);
          const ends = end === "released" ? { lettingGo: from, released: to } : { [end]: from };
          return { ask, granted, fence: fences[i] as number, ...ends, more };
        });
        const isGood = verdict(uses).length === 0;
        seen[isGood ? "good" : "bad"] += 1;
        expect(isGood).toBe(search(uses));
      }),
      { numRuns: 2_000, seed: 20_261_119 },
    );
    expect(seen.good).toBeGreaterThan(200);
    expect(seen.bad).toBeGreaterThan(200);
  });

  it("judges 10,000 events", () => {
    const uses = Array.from({ length: 2_500 }, (_, i): Use => {
      const at = i * 100;
      return { ask: at - 1_000, granted: at + 10, fence: i + 1, lettingGo: at + 90, released: at + 105 };
    });
    const history = historyOf(uses);
    expect(history.events).toHaveLength(10_000);
    expect(linearizability(history)).toEqual([]);
    const [late] = linearizability(historyOf([...uses, { ask: 0, granted: 60_050, fence: 2_501 }]));
    expect(late?.what).toContain("no order");
  });
});

/** Tries every order of grants and ends, each at the earliest moment that it can have. */
function search(uses: readonly Use[]): boolean {
  const granted = new Set<Use>();
  const ended = new Set<Use>();
  const go = (at: number, fence: number): boolean => {
    if (granted.size === uses.length) return true;
    const now = uses.filter((use) => granted.has(use) && !ended.has(use));
    for (const use of uses) {
      if (!granted.has(use) && use.fence !== undefined && use.fence > fence && fits(use, now)) {
        const then = Math.max(at, use.ask);
        if (then > (use.granted ?? 0)) continue;
        granted.add(use);
        if (go(then, use.fence)) return true;
        granted.delete(use);
      } else if (now.includes(use)) {
        ended.add(use);
        const end = use.lettingGo ?? use.lost ?? use.crashed ?? Number.POSITIVE_INFINITY;
        if (go(Math.max(at, end), fence)) return true;
        ended.delete(use);
      }
    }
    return false;
  };
  return go(Number.NEGATIVE_INFINITY, 0);
}

function fits({ more = {} }: Use, now: readonly Use[]): boolean {
  const { limit = 1, permits: count = 1, mode } = more;
  if (limit === 1) return now.every((one) => mode === "shared" && one.more?.mode === "shared");
  if (now.some((one) => one.more?.limit !== limit)) return false;
  return now.reduce((sum, one) => sum + (one.more?.permits ?? 1), count) <= limit;
}
