// More sections of the page of evidence: other libraries under the same faults, from `npm run bench --
// losses`, and what a long run leaves behind, from `npm run soak`.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readSuiteResults } from "../bench/results.ts";
import { figure, markdownTable } from "../scripts/generated.ts";
import { readJsonLines } from "../scripts/json-lines.ts";
import { HALF_OPEN_RESULTS, type HalfOpenFigures } from "./half-open.ts";
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

interface Soak {
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
    halfOpenConnections(readJsonLines<HalfOpenFigures>(HALF_OPEN_RESULTS)),
    losses === undefined ? "" : peers(losses),
    soak === null ? "" : longRun(soak),
  ].join("");
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

\`npm run bench -- losses\`, ${measured}, one Redis, a ttl of ${figure(ttlMs)} ms, one run each. Every library renews as its documentation says; one
that has no renewal gets a timer at half its ttl, and the refusal of that timer counts as being told. Versions: \`bench/package.json\`.

${table}

A holder of a frozen server can be right for ${figure(ttlMs)} ms at the most: whoever is told later, or not at all, has worked without a lock. Ours pays for its
order in the last column: the first of a line that was killed costs the others one claim window, where whoever polls knows no line.

${frozen}
`;
}

function longRun({ minutes, processes, tasks, keys, strikes, flat, moments }: Soak): string {
  const last = moments.at(-1);
  const table = markdownTable(
    ["all processes together", "first third", "last third", ""],
    flat.map((one) => [one.name, figure(one.first), figure(one.last), one.flat ? "flat" : "**grows**"]),
  );
  const struck = Object.entries(strikes).map(([name, times]) => `${name} ${times}`);
  return `
## A long run

\`npm run soak -- --minutes ${minutes}\`: ${processes} processes of ${tasks} tasks over ${keys} keys of each kind on one Redis, ${figure(last?.["sections"] ?? 0)} sections and ${figure(last?.["refusals"] ?? 0)} refusals;
faults: ${struck.join(", ")}. Medians of the samples, after a tenth of the time for warming up.

${table}

![what is kept over the run](plots/soak.svg)
`;
}
