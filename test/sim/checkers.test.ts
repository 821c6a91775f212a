import { expect, test } from "vitest";
import { check } from "../../sim/checkers/index.ts";
import type { Ask, Granted, History, HistoryEvent, RunContext } from "../../sim/history.ts";

const context: RunContext = {
  forgetful: false,
  handOffBlurMs: 0,
  calm: true,
  roundTripMs: 0,
  fifo: true,
  pollMs: 250,
  claimMs: 1_000,
  freeAfterCrashMs: (ttlMs) => ttlMs + 100,
  abandonMs: 5_000,
  slackMs: 5,
  callTimeoutMs: () => 500,
};

function ask(at: number, client: string, more: Partial<Ask> = {}): Ask {
  const base = { keys: ["k"], mode: "exclusive", permits: 1, limit: 1, ttlMs: 1_000, waitMs: 1_000 } as const;
  return { type: "ask", at, client, ask: `${client}/${at}`, ...base, ...more };
}

function granted(of: Ask, at: number, fence: number, more: Partial<Granted> = {}): Granted {
  const lease = `${of.keys[0]}@${fence}`;
  const fences = of.keys.map(() => String(fence));
  return { type: "granted", at, client: of.client, ask: of.ask, lease, fences, remainingMs: 900, ...more };
}

test("a close is not blamed for the time in which its process was stopped", () => {
  const closing: HistoryEvent[] = [
    { type: "closing", at: 40, client: "a", drainMs: 100 },
    { type: "paused", at: 50, client: "a" },
    { type: "resumed", at: 1_050, client: "a" },
    { type: "closed", at: 3_000, client: "a" },
  ];
  expect(caughtBy(closing)).toEqual([]);
});

test("a loss after a clock was set may be told at the next look, and no later", () => {
  const told = (at: number, clocksSet: boolean): string[] =>
    check({
      context: { ...context, clocksSet },
      events: [a, granted(a, 10, 1), step("lost", at, "a", "k@1")],
    }).map(({ checker }) => checker);
  expect(told(1_100, false)).toContain("lossInTime");
  expect(told(1_100, true)).not.toContain("lossInTime");
  expect(told(1_250, true)).toContain("lossInTime");
});

const step = (
  type: "letting-go" | "lost" | "renewed" | "released",
  at: number,
  client: string,
  lease: string,
  more = {},
): HistoryEvent => ({ type, at, client, lease, ...more }) as HistoryEvent;

const [a, b] = [ask(0, "a"), ask(50, "b")];

/** A history that breaks no promise: two holders, one after the other. */
const good: HistoryEvent[] = [
  a,
  granted(a, 10, 1),
  b,
  step("letting-go", 100, "a", "k@1"),
  step("released", 101, "a", "k@1", { answer: true }),
  granted(b, 110, 2),
  step("letting-go", 200, "b", "k@2"),
  step("released", 201, "b", "k@2", { answer: true }),
];

function caughtBy(events: readonly HistoryEvent[], more: Partial<RunContext> = {}): string[] {
  const history: History = {
    events: [...events].sort((x, y) => x.at - y.at),
    context: { ...context, ...more },
  };
  return [...new Set(check(history).map((one) => one.checker))];
}

test("a good history has no violation", () => {
  expect(caughtBy(good)).toEqual([]);
});

const [holdsA, holdsB] = [ask(0, "a", { keys: ["a"] }), ask(0, "b", { keys: ["b"] })];
const wantsB = ask(20, "a", { keys: ["b"], waitMs: 5_000, within: "a@1" });
const wantsA = ask(30, "b", { keys: ["a"], waitMs: 5_000, within: "b@1" });
const long = { remainingMs: 9_000 };
/** Two that wait for each other. */
const crossed: HistoryEvent[] = [
  holdsA,
  granted(holdsA, 10, 1, long),
  wantsB,
  holdsB,
  granted(holdsB, 11, 1, long),
  wantsA,
];
const refusedFor = (of: Ask, at: number): HistoryEvent => ({
  type: "refused",
  at,
  client: of.client,
  ask: of.ask,
  code: "ERR_LOCK_DEADLOCK",
});

const shared = { mode: "shared" as const };
const probe = ask(1_000, "probe1", { waitMs: Number.POSITIVE_INFINITY });
const planted: [string, string, HistoryEvent[]][] = [
  ["two holders at once", "exclusion", [a, granted(a, 10, 1), b, granted(b, 60, 2)]],
  [
    "a reader beside a writer",
    "exclusion",
    [a, granted(a, 10, 1), ask(50, "b", shared), granted(ask(50, "b", shared), 60, 2)],
  ],
  [
    "more permits than the limit",
    "exclusion",
    ["a", "b"].flatMap((client, i) => {
      const wants = ask(i, client, { limit: 3, permits: 2 });
      return [wants, granted(wants, 10 + i, 1 + i)];
    }),
  ],
  [
    "a callback that close did not notify",
    "notified",
    [
      { ...a, callback: true },
      granted(a, 10, 1),
      { type: "closing", at: 40, client: "a" },
      b,
      step("lost", 55, "a", "k@1", { reason: "closed" }),
      granted(b, 60, 2),
    ],
  ],
  [
    "a close that takes longer than its drain and 2 s",
    "closeInTime",
    [
      { type: "closing", at: 40, client: "a", drainMs: 100 },
      { type: "closed", at: 2_150, client: "a" },
    ],
  ],
  [
    "a close that never ends",
    "closeInTime",
    [
      { type: "closing", at: 40, client: "a", drainMs: 100 },
      { type: "over", at: 9_000, what: "" },
    ],
  ],
  ["a lease that starts with the rest of a push", "fullTtl", [a, granted(a, 10, 1, { remainingMs: 700 })]],
  [
    "belief beyond the store's own",
    "windowHonesty",
    [
      { type: "store-holds", at: 5, key: "k", id: "x", fence: "1", room: 0, until: 500 },
      a,
      granted(a, 10, 1),
    ],
  ],
  ["belief beyond the ttl", "windowHonesty", [a, granted(a, 10, 1, { remainingMs: 5_000 })]],
  [
    "the same fence twice",
    "fences",
    [a, granted(a, 10, 1), step("letting-go", 20, "a", "k@1"), b, granted(b, 60, 1)],
  ],
  [
    "a smaller fence later",
    "fences",
    [a, granted(a, 10, 5), step("letting-go", 20, "a", "k@5"), b, granted(b, 60, 4)],
  ],
  [
    "a guard that lets an old fence through",
    "guardedRegister",
    [2, 1].map((fence, i) => ({
      type: "touched",
      at: i,
      client: "a",
      key: "k",
      fence: String(fence),
      guarded: true,
      accepted: true,
      write: true,
      before: i,
      after: i + 1,
    })),
  ],
  [
    "a write under guard that undoes another",
    "guardedRegister",
    [1, 1].map((after, i) => ({
      type: "touched",
      at: i,
      client: "a",
      key: "k",
      fence: String(i + 1),
      guarded: true,
      accepted: true,
      write: true,
      before: i,
      after,
    })),
  ],
  [
    "a release after the loss that says true",
    "ownerOnly",
    [a, granted(a, 10, 1), step("lost", 50, "a", "k@1"), step("released", 60, "a", "k@1", { answer: true })],
  ],
  [
    "a key freed under its holder",
    "ownerOnly",
    [
      { type: "store-holds", at: 5, key: "k", id: "x", fence: "1", room: 0, until: 2_000 },
      a,
      granted(a, 10, 1),
      { type: "store-free", at: 100, key: "k", id: "x" },
    ],
  ],
  [
    "a renewal after the loss",
    "noRevival",
    [a, granted(a, 10, 1), step("lost", 50, "a", "k@1"), step("renewed", 60, "a", "k@1", { remainingMs: 5 })],
  ],
  ["a loss told too late", "lossInTime", [a, granted(a, 10, 1), step("lost", 1_200, "a", "k@1")]],
  [
    "an ask with two outcomes",
    "oneOutcome",
    [a, { type: "refused", at: 5, client: "a", ask: a.ask, code: "x" }, granted(a, 10, 1)],
  ],
  ["a lease handed out after its end", "oneOutcome", [a, granted(a, 10, 1, { remainingMs: 0 })]],
  [
    "one of two keys",
    "allOrNone",
    [ask(0, "a", { keys: ["k", "l"] }), granted(ask(0, "a", { keys: ["k", "l"] }), 10, 1, { fences: ["1"] })],
  ],
  [
    "an ask that takes too long",
    "bounds",
    [a, { type: "refused", at: 2_000, client: "a", ask: a.ask, code: "x" }],
  ],
  [
    "a probe that never gets through",
    "recovery",
    [{ type: "healed", at: 900, what: "" }, probe, { type: "over", at: 60_000, what: "" }],
  ],
  [
    "a free key with a waiter that nobody serves",
    "wakeUp",
    [
      { type: "healed", at: 0, what: "" },
      { type: "store-holds", at: 600, key: "k", id: "x", fence: "1", room: 0, until: 9_000 },
      { type: "store-seated", at: 700, key: "k", id: "y" },
      { type: "store-free", at: 1_000, key: "k", id: "x" },
      { type: "store-holds", at: 4_000, key: "k", id: "y", fence: "2", room: 0, until: 9_000 },
    ],
  ],
  [
    "a waiter that overtakes a live one",
    "order",
    [
      { type: "store-seated", at: 1, key: "k", id: "x" },
      { type: "store-seated", at: 2, key: "k", id: "y" },
      { type: "store-holds", at: 10, key: "k", id: "y", fence: "1", room: 0, until: 100 },
    ],
  ],
  ["a refusal without a circle", "deadlocks", [...crossed.slice(0, 3), refusedFor(wantsB, 800)]],
  [
    "two refusals for one circle",
    "deadlocks",
    [...crossed, refusedFor(wantsB, 800), refusedFor(wantsA, 801)],
  ],
  [
    "a circle that nobody finds",
    "deadlocks",
    [...crossed, { type: "refused", at: 2_700, client: "b", ask: wantsA.ask, code: "ERR_LOCK_TIMEOUT" }],
  ],
  ["something left behind", "leftovers", [{ type: "left-over", at: 1, what: "a key" }]],
];

test.each(planted)("%s is seen by %s", (_name, checker, events) => {
  expect(caughtBy(events)).toContain(checker);
});

test("one refusal for a circle is as it should be", () => {
  const ttl = (of: HistoryEvent): HistoryEvent => (of.type === "ask" ? { ...of, ttlMs: 10_000 } : of);
  expect(caughtBy([...crossed, refusedFor(wantsB, 800), granted(wantsA, 900, 2)].map(ttl))).not.toContain(
    "deadlocks",
  );
});

test("a paused client is not blamed for a late loss or a long wait", () => {
  const stopped: HistoryEvent[] = [
    { type: "paused", at: 100, client: "a" },
    { type: "resumed", at: 3_000, client: "a" },
  ];
  expect(caughtBy([a, granted(a, 10, 1), ...stopped, step("lost", 3_001, "a", "k@1")])).toEqual([]);
  expect(
    caughtBy([a, ...stopped, { type: "refused", at: 3_001, client: "a", ask: a.ask, code: "x" }]),
  ).toEqual([]);
});

test("a paused client is blamed for a loss that it does not tell when it runs again", () => {
  const stopped: HistoryEvent[] = [
    { type: "paused", at: 100, client: "a" },
    { type: "resumed", at: 3_000, client: "a" },
  ];
  const late = [a, granted(a, 10, 1), ...stopped, step("lost", 3_400, "a", "k@1")];
  expect(caughtBy(late)).toEqual(["lossInTime"]);
});

test("a store that forgot is held to its fences, not to exclusion", () => {
  const overlap = [a, granted(a, 10, 1), b, granted(b, 60, 2)];
  expect(caughtBy(overlap, { forgetful: true })).toEqual([]);
  expect(caughtBy([a, granted(a, 10, 2), b, granted(b, 60, 1)], { forgetful: true })).toEqual(["fences"]);
});
