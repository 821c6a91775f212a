// One reader for all results. Each suite names its figures itself. This file turns every figure into a row
// of one of three kinds: latency, throughput, or anything else by its path. It leaves no figure out.

import type { SuiteResult } from "../results.ts";

export interface Spread {
  readonly median: number;
  readonly low?: number;
  readonly high?: number;
}

export interface Latency {
  /** Where in the suite: "uncontended", "handOff", "threeNodes, uncontended". */
  readonly part: string;
  readonly library: string;
  readonly p50Ms: number;
  readonly p99Ms?: number;
}

export interface Throughput {
  readonly part: string;
  readonly library: string;
  readonly setting: string;
  readonly sectionMs: number | null;
  readonly perSecond: Spread;
  readonly jain?: number;
  readonly longestWaitMs?: number;
}

export interface Other {
  readonly path: string;
  readonly value: string;
}

/** A record per library or store, whatever it measured. */
export interface Table {
  readonly part: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

export interface Suite {
  readonly name: string;
  readonly measured: string;
  readonly node: string;
  readonly cores: number;
  /** Runs, seconds per run, server. */
  readonly settings: string;
  readonly latency: readonly Latency[];
  readonly throughput: readonly Throughput[];
  readonly others: readonly Other[];
  readonly aims: readonly Other[];
  readonly tables: readonly Table[];
}

type Json = string | number | boolean | null | readonly Json[] | { readonly [name: string]: Json };
type Fields = { readonly [name: string]: Json };

const HEAD = ["measured", "machine", "runs", "secondsPerRun", "server", "nodes", "cycles", "versions"];
const ALONE = /uncontended|sequential/i;
/** Keys that name what was timed, where one object has several: acquireReleaseP50Ms, bareTwoRoundsUs. */
const TIMED = /^(.+?)(P50|P99)?(Ms|Us)$/;
/** Suites whose hot key has a section of a millisecond and does not say so. */
const USUAL_SECTION_MS = 1;

export function readSuites(results: readonly SuiteResult[]): Suite[] {
  return results.map(({ suite, ...fields }) => readSuite(suite, fields as Fields));
}

export function readSuite(name: string, file: Fields): Suite {
  const found = new Finder();
  for (const [key, value] of Object.entries(file)) if (!HEAD.includes(key)) found.visit([key], value);
  const machine = (file["machine"] ?? {}) as { node?: string; cores?: number };
  const told = ["server", "versions", "nodes", "runs", "secondsPerRun", "cycles"].filter(
    (key) => key in file,
  );
  return {
    name,
    measured: text(file["measured"] ?? ""),
    node: machine.node ?? "",
    cores: machine.cores ?? 0,
    settings: told.map((key) => `${words(key)} ${text(file[key] as Json)}`).join(", "),
    latency: found.latency,
    throughput: found.throughput,
    others: found.others,
    aims: found.aims,
    tables: found.tables,
  };
}

class Finder {
  readonly latency: Latency[] = [];
  readonly throughput: Throughput[] = [];
  readonly others: Other[] = [];
  readonly aims: Other[] = [];
  readonly tables: Table[] = [];

  visit(path: readonly string[], value: Json): void {
    if (Array.isArray(value)) return this.#list(path, value as readonly Json[]);
    if (value === null || typeof value !== "object")
      return this.#leaf(path, value as string | number | boolean | null);
    const fields = value as Fields;
    if ("sectionsPerSecond" in fields || "cyclesPerSecond" in fields) return this.#rate(path, fields);
    if ("p50Ms" in fields || "p50Us" in fields) return this.#time(path, fields);
    if (ALONE.test(path.join(" ")) && this.#several(path, fields)) return;
    for (const [key, one] of Object.entries(fields)) this.visit([...path, key], one);
  }

  #list(path: readonly string[], list: readonly Json[]): void {
    if (list.every((one) => one === null || typeof one !== "object")) {
      if (path.at(-1) === "aims") list.forEach((one) => this.visit(path, one));
      else this.others.push({ path: part(path), value: list.join(", ") });
    } else if (list.every(isRecord)) this.tables.push(tableOf(path, list as readonly Fields[]));
    else list.forEach((one) => this.visit(path, one));
  }

  #leaf(path: readonly string[], value: string | number | boolean | null): void {
    const at = path.at(-1) ?? "";
    if (at === "aim" || at === "aims")
      this.aims.push({ path: part(path.slice(0, -1)), value: String(value) });
    else
      this.others.push({
        path: part(path),
        value: typeof value === "number" ? String(value) : String(value),
      });
  }

  #rate(path: readonly string[], fields: Fields): void {
    const rate = (fields["sectionsPerSecond"] ?? fields["cyclesPerSecond"]) as number | Spread;
    const inSections = "sectionsPerSecond" in fields;
    const { library, at } = named(path, fields);
    const sectionMs = fields["sectionMs"] ?? (inSections ? USUAL_SECTION_MS : null);
    const [processes, tasks] = [fields["processes"], fields["tasks"]];
    const jain = fields["jain"] ?? fields["fairness"];
    this.throughput.push({
      part: part(at),
      library,
      setting: processes === undefined ? "" : `${text(processes)} x ${text(tasks ?? 1)} tasks`,
      sectionMs: sectionMs as number | null,
      perSecond: typeof rate === "number" ? { median: rate } : rate,
      ...(jain === undefined ? {} : { jain: jain as number }),
      ...(fields["longestWaitMs"] === undefined ? {} : { longestWaitMs: fields["longestWaitMs"] as number }),
    });
    this.#rest(deeper(at, library), fields, [
      "library",
      "processes",
      "tasks",
      "sectionMs",
      "jain",
      "fairness",
      "longestWaitMs",
      "sectionsPerSecond",
      "cyclesPerSecond",
      "handoff",
      "options",
    ]);
  }

  #time(path: readonly string[], fields: Fields): void {
    const { library, at } = named(path, fields);
    const ms = (name: string): number | undefined =>
      (fields[`${name}Ms`] as number | undefined) ?? thousandth(fields[`${name}Us`] as number | undefined);
    const p99Ms = ms("p99");
    this.latency.push({
      part: part(at),
      library,
      p50Ms: ms("p50") as number,
      ...(p99Ms === undefined ? {} : { p99Ms }),
    });
    this.#rest(deeper(at, library), fields, ["library", "p50Ms", "p50Us", "p99Ms", "p99Us"]);
  }

  /** An object that times several things by their names; false when it times none. */
  #several(path: readonly string[], fields: Fields): boolean {
    const unit = path.at(-1) === "us" ? "Us" : path.at(-1) === "ms" ? "Ms" : null;
    const timed = Object.entries(fields).flatMap(([key, value]) => {
      const [, name = key, kind = "P50", of = unit] = TIMED.exec(key) ?? (unit === null ? [] : [key, key]);
      return typeof value === "number" &&
        of !== null &&
        of !== undefined &&
        (TIMED.test(key) || unit !== null)
        ? [{ name: libraryOf(name), kind, ms: of === "Us" ? value / 1_000 : value }]
        : [];
    });
    if (timed.length === 0) return false;
    const at = unit === null ? path : path.slice(0, -1);
    for (const { name, ms } of timed.filter(({ kind }) => kind === "P50")) {
      const p99 = timed.find((one) => one.name === name && one.kind === "P99");
      this.latency.push({
        part: part(at),
        library: name,
        p50Ms: ms,
        ...(p99 === undefined ? {} : { p99Ms: p99.ms }),
      });
    }
    this.#rest(
      path,
      fields,
      Object.keys(fields).filter(
        (key) => typeof fields[key] === "number" && (TIMED.test(key) || unit !== null),
      ),
    );
    return true;
  }

  #rest(path: readonly string[], fields: Fields, known: readonly string[]): void {
    for (const [key, value] of Object.entries(fields))
      if (!known.includes(key)) this.visit([...path, key], value);
  }
}

/** What is beside our own figures and has no name of its own belongs to the part. */
const deeper = (at: readonly string[], library: string): readonly string[] =>
  library === "holdfast" ? at : [...at, library];

const NAMES = ["library", "store"] as const;

/** Named, and neither a rate nor a time: those have columns of their own. */
function isRecord(value: Json): boolean {
  if (value === null || typeof value !== "object") return false;
  const known = ["sectionsPerSecond", "cyclesPerSecond", "p50Ms", "p50Us"].some((name) => name in value);
  return !known && NAMES.some((name) => name in value);
}

function tableOf(path: readonly string[], records: readonly Fields[]): Table {
  const flat = records.map((record) => new Map(leaves([], record)));
  const head = [...new Set(flat.flatMap((record) => [...record.keys()]))];
  const rows = flat.map((record) => head.map((name) => record.get(name) ?? ""));
  return {
    part: part(path.filter((step) => step !== "figures")),
    head: head.map((name) => (name === "library" || name === "store" ? "" : name)),
    rows,
  };
}

function leaves(path: readonly string[], value: Json): [string, string][] {
  if (value === null || typeof value !== "object" || Array.isArray(value))
    return [[part(path), value === null ? "none" : text(value)]];
  return Object.entries(value as Fields).flatMap(([name, one]) => leaves([...path, name], one));
}

/** Who it was: by its field, or by the name that it was written under. */
function named(path: readonly string[], fields: Fields): { library: string; at: readonly string[] } {
  const off = fields["handoff"] === 0 || (fields["options"] as Fields | undefined)?.["handoff"] === 0;
  const told = fields["library"] as string | undefined;
  const own = path.at(-1) ?? "";
  const byPath = path.length > 1 && !["figures", "handOff", "uncontended", "hotKey"].includes(own);
  const library = told ?? (byPath ? own : "holdfast");
  const at = told === undefined && byPath ? path.slice(0, -1) : path;
  return {
    library: libraryOf(library) + (off ? ", handoff: 0" : ""),
    at: at.filter((step) => step !== "figures"),
  };
}

const OURS: Readonly<Record<string, string>> = {
  acquireRelease: "holdfast",
  memoryStore: "holdfast, memory",
  holdfastTable: "holdfast, table",
  holdfastRow: "holdfast, row",
  table: "holdfast, table",
  advisory: "holdfast, advisory",
  getLock: "GET_LOCK",
  verrou: "@verrou/core",
};

function libraryOf(name: string): string {
  const ours = OURS[name];
  if (ours !== undefined) return ours;
  const bare = /^bare([A-Z].*)$/.exec(name)?.[1];
  return bare === undefined ? name : `bare, ${words(bare)}`;
}

const thousandth = (us: number | undefined): number | undefined =>
  us === undefined ? undefined : us / 1_000;

/** threeNodes -> three nodes */
function words(name: string): string {
  return name
    .replaceAll(/([a-z0-9])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .replaceAll("hand off", "hand-off");
}

const part = (path: readonly string[]): string => path.map(words).join(", ");

function text(value: Json): string {
  return value !== null && typeof value === "object" && !Array.isArray(value)
    ? Object.entries(value as Fields)
        .map(([name, one]) => `${words(name)} ${text(one)}`)
        .join(", ")
    : String(value);
}
