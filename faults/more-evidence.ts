// More sections of the page of evidence: other libraries under the same faults, from `npm run bench --
// losses`, and what a long run leaves behind, from `npm run soak`.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readSuiteResults } from "../bench/results.ts";
import { figure, markdownTable } from "../scripts/generated.ts";
import { readJsonLines } from "../scripts/json-lines.ts";
import type { RanNow } from "../scripts/ran-now.ts";
import { readSimResults, type SimResult } from "../sim/results.ts";
import { HALF_OPEN_RESULTS, type HalfOpenFigures } from "./half-open.ts";
import { MOST, OUTAGE_RESULTS, type OutageFigures } from "./outage.ts";
import { type Moment, soakPlot } from "./soak/plot.ts";

const ROOT: string = join(import.meta.dirname, "..");

interface Losses {
  readonly measured: string;
  readonly ttlMs: number;
  readonly figures: readonly {
    readonly library: string;
    readonly frozenServer: { readonly toldAfterMs: number | null };
    readonly blockedLoop: {
      readonly believedRightAfter: boolean | null;
      readonly toldAfterMs: number | null;
    };
    readonly lostReply: { readonly hadItAfterMs: number | null };
    readonly killedHolder: { readonly nextAfterMs: number | null };
    readonly killedWaiter: { readonly nextAfterMs: number | null };
  }[];
  readonly oneOfThreeFrozen: readonly {
    readonly library: string;
    readonly healthyMs: number | null;
    readonly frozenMs: number | null;
  }[];
}

interface Soak extends Partial<RanNow> {
  readonly minutes: number;
  readonly processes: number;
  readonly tasks: number;
  readonly keys: number;
  readonly strikes: Readonly<Record<string, number>>;
  readonly flat: readonly {
    readonly name: string;
    readonly first: number;
    readonly last: number;
    readonly flat: boolean;
  }[];
  readonly moments: readonly Moment[];
}

export function moreEvidence(): string {
  const losses = readSuiteResults().find(({ suite }) => suite === "losses") as Losses | undefined;
  const soak = readSoak("faults/soak/results/redis.json");
  const plot = join(ROOT, "docs", "appendix", "plots", "soak.svg");
  if (soak !== null) writeFileSync(plot, soakPlot(soak.moments));
  return [
    simulated(readSimResults()),
    outages(readJsonLines<OutageFigures & RanNow>(OUTAGE_RESULTS)),
    halfOpenConnections(readJsonLines<HalfOpenFigures>(HALF_OPEN_RESULTS)),
    losses === undefined ? "" : peers(losses),
    soak === null ? "" : longRun(soak),
  ].join("");
}

function simulated(results: readonly SimResult[]): string {
  if (results.length === 0) return "";
  const sum = (
    some: readonly SimResult[],
    name: "runs" | "events" | "grants" | "losses" | "seconds",
  ): number => some.reduce((all, one) => all + one[name], 0);
  const rows = [...new Set(results.map(({ store }) => store))].map((store) => {
    const some = results.filter((one) => one.store === store);
    const failed = some.filter((one) => one.failed).map(({ seed }) => seed);
    return [
      store,
      some.length,
      figure(sum(some, "runs")),
      figure(sum(some, "events")),
      figure(sum(some, "grants")),
      figure(sum(some, "losses")),
      (sum(some, "seconds") / 60).toFixed(1),
      failed.length === 0 ? "none" : `**seed ${failed.join(", ")}**`,
      [...new Set(some.map(({ versions }) => versions.source))].join(", "),
    ];
  });
  const heads = ["store", "seeds", "worlds", "events", "grants", "losses", "minutes", "failed", "src"];
  return `
## Simulated worlds

\`npm run sim -- --store NAME --seed N --runs N\`: the real client code in virtual time, with a network, clocks
and servers that the simulator controls. A world is a set of clients, keys and faults that the seed chooses.
The checkers judge its history as they judge that of a fault run.

${markdownTable(heads, rows)}
`;
}

function outages(results: readonly (OutageFigures & RanNow)[]): string {
  if (results.length === 0) return "";
  const table = markdownTable(
    [
      "store",
      "servers",
      "seconds",
      "calls",
      "heap at the end",
      "heap growth",
      "idle CPU",
      "first grant",
      "writes in the first second",
      "server",
    ],
    results.map((one) => [
      one.store,
      one.phase,
      one.seconds,
      figure(one.sent),
      `${one.heapMb.toFixed(1)} MB`,
      `${one.heapGrowthMb.toFixed(1)} MB`,
      `${one.idleCpuPercent.toFixed(2)} %`,
      `${figure(Math.round(one.firstGrantMs))} ms`,
      figure(one.writesInFirstSecond),
      one.server ?? "",
    ]),
  );
  const growth = `${MOST.heapGrowthMb} MB of heap growth`;
  const cpu = `${MOST.idleCpuPercent} % of a core after the load`;
  const grant = `the first grant within ${figure(MOST.firstGrantMs)} ms`;
  return `
## Outages under load

\`npm run faults -- --outage --store NAME --seconds N\`: the servers are frozen while a client calls
\`tryAcquire\`, then they are down (P20). Of redlock, one node.
The limits: ${growth}, ${cpu}, and ${grant}.

${table}
`;
}

function halfOpenConnections(results: readonly HalfOpenFigures[]): string {
  if (results.length === 0) return "";
  const table = markdownTable(
    ["store", "next grant, each round", "lease of before", "server"],
    results.map(({ store, tookMs, kept, version }) => [
      store,
      tookMs.map(ms).join(", "),
      `held in ${kept} of ${tookMs.length}`,
      version,
    ]),
  );
  return `
## The next grant over half-open connections

\`npm run faults -- --half-open\`: a client holds a lease, all of its connections fall silent at once,
and new ones work, as after a NAT timeout. At the default ttl two calls of 2 s without an answer replace a
connection. The redlock of the fault runs has a ttl of 2 s and shorter calls.

${table}
`;
}

function readSoak(path: string): Soak | null {
  const file = join(ROOT, path);
  return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Soak) : null;
}

const ms = (value: number | null): string => (value === null ? "not within 10 s" : `${figure(value)} ms`);

function belief(held: boolean | null): string {
  if (held === null) return "cannot be asked";
  return held ? "**still held**" : "lost";
}

function peers({ measured, ttlMs, figures, oneOfThreeFrozen }: Losses): string {
  const table = markdownTable(
    [
      "library",
      "server frozen: told after",
      "loop blocked past the ttl: believed right after",
      "then told after",
      "reply of acquire lost: had it after",
      "holder killed: next after",
      "first waiter killed: next after",
    ],
    figures.map((one) => [
      one.library,
      ms(one.frozenServer.toldAfterMs),
      belief(one.blockedLoop.believedRightAfter),
      ms(one.blockedLoop.toldAfterMs),
      ms(one.lostReply.hadItAfterMs),
      ms(one.killedHolder.nextAfterMs),
      ms(one.killedWaiter.nextAfterMs),
    ]),
  );
  const frozen = markdownTable(
    ["library, three masters", "acquire + release p50, all well", "one frozen"],
    oneOfThreeFrozen.map((one) => [one.library, ms(one.healthyMs), ms(one.frozenMs)]),
  );
  return `
## The peers under the same

\`npm run bench -- losses\`, ${measured}, one Redis, a ttl of ${figure(ttlMs)} ms, one run each. Every library
renews as its documentation says. A library without renewal gets a timer at half its ttl, and the rejection of
that timer counts as the notification. Versions: \`bench/package.json\`.

${table}

A holder of a frozen server can be right for at most ${figure(ttlMs)} ms. A holder that learns of the loss later has
worked without a lock. holdfast pays for its order in the last column: a killed first waiter costs the other
waiters one claim window. A library that polls has no queue.

${frozen}
`;
}

function longRun({ minutes, processes, tasks, keys, strikes, flat, moments, ...now }: Soak): string {
  const { measured, versions } = now;
  const ran =
    versions === undefined ? "Run on a version before 0.2." : `holdfast ${versions.holdfast}, ${measured}.`;
  const last = moments.at(-1);
  const table = markdownTable(
    ["all processes together", "first third", "last third", ""],
    flat.map((one) => [one.name, figure(one.first), figure(one.last), one.flat ? "flat" : "**grows**"]),
  );
  const struck = Object.entries(strikes).map(([name, times]) => `${name} ${times}`);
  return `
## A long run

\`npm run soak -- --minutes ${minutes}\`: ${processes} processes of ${tasks} tasks over ${keys} keys of each kind on one Redis.
${ran}
${figure(last?.["sections"] ?? 0)} sections and ${figure(last?.["refusals"] ?? 0)} refusals. Faults:
${struck.join(", ")}.
The figures are medians of the samples, without the first tenth of the time.

${table}

![what is kept over the run](plots/soak.svg)
`;
}
