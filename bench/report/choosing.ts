// The measured columns of docs/stores/choosing.md: the guarantees of each store, and the results of the
// benchmarks. Stores without a result have empty cells.

import { markdownTable } from "../../scripts/generated.ts";
import type { Guarantees } from "../../src/index.ts";
import { storeModes } from "../../src/stores/registry.ts";
import { kindOf } from "./benchmarks.ts";
import type { Latency, Suite, Throughput } from "./read.ts";
import { type Bar, barChart, short } from "./svg.ts";

interface Choice {
  readonly name: string;
  /** In the registry of stores, and in the suite of elections. */
  readonly mode: string;
  /** The suite that measured it, which of its libraries it is, and which of several set-ups. */
  readonly suite?: string;
  readonly library: RegExp;
  readonly part: RegExp;
}

const OURS = /^holdfast$/;
const ANY = /./;

const CHOICES: readonly Choice[] = [
  { name: "local", mode: "local", suite: "local", library: OURS, part: ANY },
  { name: "redis", mode: "redis", suite: "redis", library: OURS, part: ANY },
  {
    name: "redis, Sentinel",
    mode: "redis-sentinel",
    library: OURS,
    part: ANY,
  },
  {
    name: "redis, Cluster",
    mode: "redis-cluster",
    library: OURS,
    part: ANY,
  },
  {
    name: "redlock, 5 nodes",
    mode: "redlock",
    suite: "redlock",
    library: OURS,
    part: ANY,
  },
  {
    name: "postgres",
    mode: "postgres",
    suite: "postgres",
    library: /^holdfast, table$/,
    part: ANY,
  },
  {
    name: "postgres, advisory",
    mode: "postgres-advisory",
    suite: "postgres",
    library: /^holdfast, advisory$/,
    part: ANY,
  },
  {
    name: "mysql",
    mode: "mysql",
    suite: "mysql",
    library: /^holdfast, table$/,
    part: ANY,
  },
  {
    name: "mysql, row mode",
    mode: "mysql-row",
    suite: "mysql",
    library: /^holdfast, row$/,
    part: ANY,
  },
  {
    name: "etcd, 3 nodes",
    mode: "etcd",
    suite: "etcd",
    library: OURS,
    part: /three/,
  },
  {
    name: "zookeeper, 3 servers",
    mode: "zookeeper",
    suite: "zookeeper",
    library: OURS,
    part: /three|^hand|^hot/,
  },
];

function guaranteesOf({ mode }: Choice): Guarantees {
  const found = storeModes.find(({ name }) => name === mode);
  if (found === undefined) throw new Error(`the registry of stores has no ${mode}`);
  return found.guarantees;
}

export function measuredTable(suites: readonly Suite[]): string {
  const rows = CHOICES.map((choice) => {
    const { name } = choice;
    const guarantees = guaranteesOf(choice);
    const alone = latencyOf(choice, suites, /uncontended|sequential/);
    const hot = hotOf(choice, suites, 1);
    const empty = hotOf(choice, suites, 0);
    const handOff = latencyOf(choice, suites, /hand-off/);
    return [
      name,
      alone === undefined ? "" : `${short(alone.row.p50Ms)} ms${ofBare(alone)}`,
      empty === undefined ? "" : short(empty.perSecond.median),
      hot === undefined ? "" : short(hot.perSecond.median),
      hot?.longestWaitMs === undefined ? "" : `${short(hot.longestWaitMs)} ms`,
      handOff === undefined ? "" : `${short(handOff.row.p50Ms)} ms`,
      successor(choice, suites),
      guarantees.fence,
      guarantees.order,
      freeAfter(guarantees),
    ];
  });
  return markdownTable(
    [
      "store",
      "acquire + release, p50 (of bare)",
      "hot key, empty section, per second",
      "hot key, 1 ms, per second",
      "its longest wait",
      "hand-off between processes, p50",
      "leader killed, ttl 1 s: the next after",
      "fence",
      "order",
      "a dead holder's key is free after",
    ],
    rows,
  );
}

interface Found {
  readonly row: Latency;
  readonly bareMs: number | undefined;
}

function latencyOf(
  { suite, library, part }: Choice,
  suites: readonly Suite[],
  kind: RegExp,
): Found | undefined {
  const rows = suites
    .filter(({ name }) => name === suite)
    .flatMap(({ latency }) => latency)
    .filter((one) => kind.test(one.part) && part.test(one.part));
  const row = rows.find((one) => library.test(one.library)) ?? rows.find((one) => OURS.test(one.library));
  if (row === undefined) return undefined;
  const bare = rows.find((one) => one.part === row.part && kindOf(one.library) === "bare");
  return { row, bareMs: bare?.p50Ms };
}

const ofBare = ({ row, bareMs }: Found): string =>
  bareMs === undefined ? "" : ` (${short(row.p50Ms / bareMs)})`;

function hotOf(
  { suite, library, part }: Choice,
  suites: readonly Suite[],
  sectionMs: number,
): Throughput | undefined {
  return suites
    .filter(({ name }) => name === suite)
    .flatMap(({ throughput }) => throughput)
    .find(
      (one) =>
        one.sectionMs === sectionMs &&
        /hot/.test(one.part) &&
        part.test(one.part) &&
        library.test(one.library),
    );
}

/** By the suite of elections: from kill -9 of a leader until another leads. */
function successor({ mode }: Choice, suites: readonly Suite[]): string {
  for (const { head, rows } of suites.find(({ name }) => name === "elections")?.tables ?? []) {
    const row = rows.find(([name]) => name === mode);
    const [middle, worst] = ["median ms", "worst ms"].map((name) => row?.[head.indexOf(name)]);
    if (middle !== undefined && worst !== undefined)
      return `${short(Number(middle))} ms, at worst ${short(Number(worst))}`;
  }
  return "";
}

function freeAfter({ freeAfterCrashMs }: Guarantees): string {
  return freeAfterCrashMs === "lease" ? "ttl + grace" : `${short(freeAfterCrashMs)} ms`;
}

export function storesPlot(suites: readonly Suite[]): { readonly file: string; readonly svg: string } | null {
  const bars: Bar[] = CHOICES.flatMap((choice) => {
    const found = latencyOf(choice, suites, /uncontended|sequential/);
    if (found === undefined) return [];
    const { row, bareMs } = found;
    const note = bareMs === undefined ? {} : { note: `${short(row.p50Ms / bareMs)} x its bare limit` };
    return [{ name: choice.name, kind: "ours" as const, value: row.p50Ms, ...note }];
  });
  if (bars.length === 0) return null;
  const title = "all stores: acquire and release, nobody else there";
  return {
    file: "stores.svg",
    svg: barChart({ title, unit: "ms, median, on one machine", better: "less", bars }),
  };
}
