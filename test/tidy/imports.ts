// Who may import whom, as one table. The first row whose `of` fits a file decides what that file may reach.

import { posix } from "node:path";
import { codeOf } from "./scan.ts";
import { type Complaint, isTestOnly, lineAt, type SourceFile } from "./tree.ts";

export interface Import {
  /** As written. */
  readonly specifier: string;
  readonly typesOnly: boolean;
  readonly line: number;
}

interface Row {
  readonly of: RegExp;
  /** Paths from src/, or names of packages and node: modules. */
  readonly may: readonly RegExp[];
  readonly mayTypes?: readonly RegExp[];
  readonly remedy: string;
}

const CONTRACT = /^core\/(store|system)\.ts$/;
const STORE_INDEX = /^stores\/[a-z-]+\/index\.ts$/;
const PUBLIC = [/^index\.ts$/, STORE_INDEX, /^fence\/index\.ts$/];
const OUTSIDE = /^(?!node:)[@a-z][^.]*$/;
const NODE = /^node:/;
const NODE_VERSION = /^system\/node-version\.ts$/;

const TABLE: readonly Row[] = [
  {
    of: /^core\/store\.ts$/,
    may: [],
    mayTypes: [/^core\/system\.ts$/],
    remedy: "the contract imports nothing but the types of core/system",
  },
  { of: /^core\/system\.ts$/, may: [], remedy: "this file imports nothing" },
  {
    of: /^core\/errors\.ts$/,
    may: [/^core\/util\/process-wide\.ts$/],
    mayTypes: [/^core\/store\.ts$/],
    remedy: "this file imports nothing but the types of core/store, and core/util/process-wide",
  },
  {
    of: /^core\/lease\/actor\.ts$/,
    may: [/^core\//, /^node:async_hooks$/],
    remedy: "core imports core, and here node:async_hooks",
  },
  {
    of: /^core\/tracing\.ts$/,
    may: [/^core\//, /^node:diagnostics_channel$/],
    remedy: "core imports core, and here node:diagnostics_channel",
  },
  {
    of: /^core\//,
    may: [/^core\//],
    remedy:
      "core imports no store, no package and no node: module; core/store and core/system have the types",
  },
  {
    of: /^stores\/registry\.ts$/,
    may: [STORE_INDEX, /^stores\/schemes\.ts$/],
    mayTypes: [CONTRACT],
    remedy: "the registry knows the index of each store, the schemes and the contract",
  },
  {
    of: /^stores\//,
    may: [
      /^core\/(errors|key|duration|lease\/validity-window|lease\/server-clock|util\/process-wide)\.ts$/,
      /^stores\/shared\//,
      NODE,
      OUTSIDE,
    ],
    mayTypes: [CONTRACT],
    remedy:
      "a store imports types of the contract, stores/shared, itself, and of core: " +
      "errors, key, duration, validity-window, server-clock, process-wide",
  },
  {
    of: /^system\//,
    may: [/^system\//, /^core\/util\/process-wide\.ts$/, NODE],
    mayTypes: [/^core\//],
    remedy: "the system implements core/system with node: modules and core/util/process-wide",
  },
  {
    of: /^fence\//,
    may: [/^fence\//, /^core\/(errors|key)\.ts$/, NODE],
    mayTypes: [/^core\//],
    remedy: "a guard imports core/errors, core/key and types of core",
  },
  {
    of: /^dashboard\//,
    may: [/^dashboard\//, /^core\/errors\.ts$/, NODE],
    mayTypes: [/^core\//],
    remedy: "the dashboard imports core/errors and types of core",
  },
  {
    of: /^(otel|prometheus|telemetry|web-locks)\//,
    may: [/^telemetry\//, /^core\/errors\.ts$/, NODE],
    mayTypes: [/^core\//],
    remedy: "an adapter imports src/telemetry, core/errors and types of core",
  },
  {
    of: /^compat\//,
    may: [/^core\/errors\.ts$/, /^create-locks-for\.ts$/, STORE_INDEX, NODE],
    mayTypes: [/^core\//],
    remedy: "a compat layer imports create-locks-for, the index of a store, core/errors and types of core",
  },
  {
    of: /^nestjs\//,
    may: [/^nestjs\//, /^core\/errors\.ts$/, /^create-locks\.ts$/, NODE],
    mayTypes: [/^core\//],
    remedy: "the NestJS module imports create-locks, core/errors and types of core, and no package",
  },
  {
    of: /^orm\//,
    may: [/^orm\/port\.ts$/, /^core\/errors\.ts$/],
    mayTypes: [CONTRACT],
    remedy: "an adapter for an ORM imports orm/port, core/errors and types of the contract, and no ORM",
  },
  {
    of: /^(cli|demo)\//,
    may: [
      ...PUBLIC,
      /^(cli|demo)\//,
      /^system\/node\.ts$/,
      NODE_VERSION,
      /^(surface|create-locks-for|dashboard\/index)\.ts$/,
      /^stores\/(schemes|local\/machine)\.ts$/,
      NODE,
      OUTSIDE,
    ],
    remedy:
      "the command uses the public API: src/surface.ts, create-locks-for, the index of a store, " +
      "stores/schemes and stores/local/machine",
  },
  {
    of: /^testing\/test-(locks|store)\.ts$/,
    may: [/^core\//, /^stores\/memory\//, /^testing\/(test-store|virtual-system)\.ts$/],
    remedy: "locks for the tests of an application join core, the memory store and the virtual clock",
  },
  {
    of: /^testing\//,
    may: [...PUBLIC, /^testing\//, /^system\/node\.ts$/, NODE, OUTSIDE],
    mayTypes: [CONTRACT],
    remedy: "the suite uses the public API and the types of the contract",
  },
  {
    of: /^create-locks-for\.ts$/,
    may: [/^core\//, /^system\/node\.ts$/],
    remedy: "this file joins core and the system, and knows no store",
  },
  {
    of: /^create-locks\.ts$/,
    may: [/^core\//, /^create-locks-for\.ts$/, /^stores\/registry\.ts$/, STORE_INDEX],
    remedy: "this file joins core and the stores by URL",
  },
  {
    of: /^(index|surface)\.ts$/,
    may: [/^core\//, /^create-locks\.ts$/, /^surface\.ts$/, NODE_VERSION],
    remedy: "the public surface re-exports core and create-locks",
  },
  {
    of: /^core\.ts$/,
    may: [/^create-locks-for\.ts$/, /^surface\.ts$/, NODE_VERSION],
    remedy: "holdfast/core includes no store and no URL",
  },
];

const STATEMENT = /\b(?:import|export)\s+(type\s)?\s*(?:([^;"'`()]*?)\sfrom\s+)?["']([^"']+)["']/g;
const DYNAMIC = /\bimport\s*\(\s*["'`]([^"'`]+)["'`]/g;

export function importsOf(text: string): Import[] {
  const code = codeOf(text, { strings: true });
  const found: Import[] = [];
  for (const match of code.matchAll(STATEMENT)) {
    const typesOnly = match[1] !== undefined || onlyTypes(match[2] ?? "");
    found.push({ specifier: match[3] as string, typesOnly, line: lineAt(code, match.index) });
  }
  for (const match of code.matchAll(DYNAMIC)) {
    found.push({ specifier: match[1] as string, typesOnly: false, line: lineAt(code, match.index) });
  }
  return found;
}

function onlyTypes(clause: string): boolean {
  const names = /^\s*\{([^}]*)\}\s*$/
    .exec(clause)?.[1]
    ?.split(",")
    .map((name) => name.trim());
  return names !== undefined && names.filter((name) => name !== "").every((name) => name.startsWith("type "));
}

export function checkImports(file: SourceFile): Complaint[] {
  if (!file.path.startsWith("src/") || !file.path.endsWith(".ts") || isTestOnly(file.path)) return [];
  const from = file.path.slice("src/".length);
  const row = TABLE.find((candidate) => candidate.of.test(from));
  if (row === undefined) {
    return [
      {
        path: file.path,
        line: 1,
        message: "no row of the import table covers this file, add one in test/tidy/imports.ts",
      },
    ];
  }
  return importsOf(file.text)
    .filter((one) => !allowed(row, from, target(from, one.specifier), one.typesOnly))
    .map((one) => ({
      path: file.path,
      line: one.line,
      message: `may not import ${one.specifier}: ${row.remedy}`,
    }));
}

/** Outside of src a path starts with "..", which no row allows. */
function target(from: string, specifier: string): string {
  return specifier.startsWith(".") ? posix.join(posix.dirname(from), specifier) : specifier;
}

function allowed(row: Row, from: string, to: string, typesOnly: boolean): boolean {
  const own = /^stores\/[a-z-]+\//.exec(from)?.[0];
  if (own !== undefined && to.startsWith(own)) return true;
  // Redlock talks to many Redis nodes: it shares the client adapters, the connection to one node, the key
  // names and the server facts of redis.
  const oneNode =
    /^stores\/redis\/(client\/(port|connect|node-redis)|commands\/keys|topology\/(server-info|single-node))/;
  if (from.startsWith("stores/redlock/") && oneNode.test(to)) return true;
  return (
    row.may.some((path) => path.test(to)) || (typesOnly && (row.mayTypes ?? []).some((path) => path.test(to)))
  );
}
