// docs/appendix/benchmarks.md and its plots, from bench/results.jsonl: the text between the marks
// of the page; the rest of the page is written by hand.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { markdownTable } from "../../scripts/generated.ts";
import { type Latency, type Spread, type Suite, type Throughput } from "./read.ts";
import { type Bar, barChart, short } from "./svg.ts";

export interface Plot {
  readonly file: string;
  readonly svg: string;
}

export interface Written {
  readonly text: string;
  readonly plots: readonly Plot[];
}

export function benchmarks(suites: readonly Suite[], benchFolder: string): Written {
  const pages = suites.map((suite) => suitePage(suite));
  return {
    text: [versions(suites, benchFolder), ...pages.map(({ text }) => text)].join("\n\n"),
    plots: pages.flatMap(({ plots }) => plots),
  };
}

function versions(suites: readonly Suite[], folder: string): string {
  const { dependencies } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as {
    dependencies: Record<string, string>;
  };
  const peers = Object.entries(dependencies)
    .filter(([name]) => !["holdfast", "ioredis", "knex"].includes(name))
    .map(([name, version]) => `${name} ${version.replace(/^npm:.*@/, "")}`);
  const machines = new Set(suites.map(({ node, cores }) => `Node ${node}, ${cores} cores`));
  const list = peers.map((peer) => `- ${peer}`).join("\n");
  return `Measured on: ${[...machines].join("; ")}. Peers:\n\n${list}`;
}

/** Title and settings. */
const HEAD_PARTS = 2;

function suitePage(suite: Suite): Written {
  const plots: Plot[] = [];
  const text = [`## ${suite.name}`, `${[suite.measured, suite.settings].filter(Boolean).join("; ")}.`];
  for (const [part, rows] of grouped(suite.latency, ({ part: one }) => one)) {
    const drawn = plotted(`${suite.name}-${part}`, rows, () => latencyChart(suite.name, part, rows));
    plots.push(...drawn);
    text.push(`### ${title(part)}: how long\n\n${picture(drawn, part)}${latencyTable(rows)}`);
  }
  for (const [part, rows] of grouped(suite.throughput, partOf)) {
    const drawn = plotted(`${suite.name}-${part}`, rows, () => rateChart(suite.name, part, rows));
    plots.push(...drawn);
    text.push(`### ${title(part)}: how many\n\n${picture(drawn, part)}${rateTable(rows)}`);
  }
  for (const { part, head, rows } of suite.tables)
    text.push(`${part === "" ? "" : `### ${title(part)}\n\n`}${markdownTable(head, rows)}`);
  if (text.length === HEAD_PARTS && suite.others.length > 0) text.push(others(suite));
  return { text: text.join("\n\n"), plots };
}

const partOf = ({ part, sectionMs }: Throughput): string =>
  sectionMs === null ? part : `${part}, ${sectionMs === 0 ? "empty section" : `section of ${sectionMs} ms`}`;

const title = (part: string): string => part[0]?.toUpperCase() + part.slice(1);

/** Figures that are in no chart are listed only if the suite has no other ones. All are in results.jsonl. */
function others({ others: rows }: Suite): string {
  return markdownTable(
    ["measured", ""],
    rows.map(({ path, value }) => [path, value]),
  );
}

/** One bar alone compares nothing. */
function plotted(name: string, rows: readonly unknown[], draw: () => string): Plot[] {
  return rows.length < 2 ? [] : [{ file: `${name.replaceAll(/[^a-z0-9]+/g, "-")}.svg`, svg: draw() }];
}

const picture = (drawn: readonly Plot[], part: string): string =>
  drawn.map(({ file }) => `![${part}](plots/${file})\n\n`).join("");

function latencyChart(suite: string, part: string, rows: readonly Latency[]): string {
  const bare = rows.find(({ library }) => kindOf(library) === "bare")?.p50Ms;
  return barChart({
    title: `${suite}: ${part}`,
    unit: /hand-off/.test(part)
      ? "ms from release to the next grant, median"
      : "ms for acquire and release, median",
    better: "less",
    bars: rows.map(({ library, p50Ms, p99Ms }) => ({
      name: library,
      kind: kindOf(library),
      value: p50Ms,
      note: [
        ...(bare === undefined || kindOf(library) === "bare" ? [] : [`${short(p50Ms / bare)} x bare`]),
        ...(p99Ms === undefined ? [] : [`p99 ${short(p99Ms)}`]),
      ].join(", "),
    })),
  });
}

function rateChart(suite: string, part: string, rows: readonly Throughput[]): string {
  return barChart({
    title: `${suite}: ${part}`,
    unit: `${/key/.test(part) && !/keys/.test(part) ? "sections" : "acquire and release"} per second`,
    better: "more",
    bars: rows.map(({ library, perSecond, jain, longestWaitMs }) => ({
      name: library,
      kind: kindOf(library),
      value: perSecond.median,
      ...(perSecond.low === undefined ? {} : { low: perSecond.low }),
      ...(perSecond.high === undefined ? {} : { high: perSecond.high }),
      note: [
        ...(longestWaitMs === undefined ? [] : [`longest wait ${short(longestWaitMs)} ms`]),
        ...(jain === undefined ? [] : [`Jain ${short(jain)}`]),
      ].join(", "),
    })),
  });
}

function latencyTable(rows: readonly Latency[]): string {
  const bare = rows.find(({ library }) => kindOf(library) === "bare")?.p50Ms;
  return markdownTable(
    ["", "p50", "p99", "of bare"],
    rows.map(({ library, p50Ms, p99Ms }) => [
      shown(library),
      `${short(p50Ms)} ms`,
      p99Ms === undefined ? "" : `${short(p99Ms)} ms`,
      bare === undefined ? "" : short(p50Ms / bare),
    ]),
  );
}

function rateTable(rows: readonly Throughput[]): string {
  return markdownTable(
    ["", "contest", "per second", "lowest to highest", "Jain index", "longest wait"],
    rows.map(({ library, setting, perSecond, jain, longestWaitMs }) => [
      shown(library),
      setting,
      short(perSecond.median),
      range(perSecond),
      jain === undefined ? "" : short(jain),
      longestWaitMs === undefined ? "" : `${short(longestWaitMs)} ms`,
    ]),
  );
}

const range = ({ low, high }: Spread): string =>
  low === undefined || high === undefined ? "one run" : `${short(low)} to ${short(high)}`;

const shown = (library: string): string => (kindOf(library) === "ours" ? `**${library}**` : library);

export function kindOf(library: string): Bar["kind"] {
  if (library.startsWith("holdfast")) return "ours";
  return /^bare|by hand|^async-mutex/.test(library) ? "bare" : "peer";
}

function grouped<T>(rows: readonly T[], by: (row: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const row of rows) groups.set(by(row), [...(groups.get(by(row)) ?? []), row]);
  return groups;
}
