// TypeScript 5.2 to 7.0, each with every way to resolve modules, as ES modules and as CommonJS. A cell
// compiles the example and a file that imports every subpath, with all declarations checked, and runs both.

import type { Cell } from "./cells.ts";

const VERSIONS = ["5.2", "5.3", "5.4", "5.5", "5.6", "5.7", "5.8", "5.9", "6.0", "7.0"];
const RESOLVERS = ["node16", "nodenext", "bundler", "node10"] as const;
const FORMATS = ["ESM", "CommonJS"] as const;

type Resolver = (typeof RESOLVERS)[number];
type Format = (typeof FORMATS)[number];

/** Where the example finds each compiler. */
export function typescriptPackages(): Record<string, string> {
  return Object.fromEntries(
    VERSIONS.map((version) => [`typescript-${version}`, `npm:typescript@~${version}.0`]),
  );
}

/** The flags, and the source: null where this TypeScript has no such combination. */
function compile(
  version: string,
  resolver: Resolver,
  format: Format,
): [flags: string, source: string] | null {
  const number = Number(version);
  const source = format === "ESM" ? "main.mts" : "main.cts";
  if (resolver === "node16" || resolver === "nodenext") return [`--module ${resolver}`, source];
  if (resolver === "node10") {
    // Deprecated in 6.0, gone in 7.0.
    if (number >= 7) return null;
    const module = format === "ESM" ? "esnext" : "commonjs";
    const deprecated = number >= 6 ? " --ignoreDeprecations 6.0" : "";
    return [`--module ${module} --moduleResolution node10${deprecated}`, source];
  }
  if (format === "ESM") return ["--module esnext --moduleResolution bundler", source];
  // `import x = require()` with the resolver of bundlers: since 5.4.
  return number < 5.4 ? null : ["--module preserve --moduleResolution bundler", "require.cts"];
}

export function typescriptCells(): Cell[] {
  return VERSIONS.flatMap((version) =>
    FORMATS.flatMap((format) =>
      RESOLVERS.flatMap((resolver): Cell[] => {
        const compiled = compile(version, resolver, format);
        if (compiled === null) return [];
        const [flags, source] = compiled;
        const tsc = `node node_modules/typescript-${version}/bin/tsc`;
        // Since 6.0, files on the command line are an error beside a tsconfig.json.
        const ignored = Number(version) >= 6 ? "--ignoreConfig " : "";
        const common = `${ignored}--strict --target es2022 --types node --outDir out`;
        const subpaths = format === "ESM" ? "subpaths.mts" : "subpaths.cts";
        const [output, imports] = [source, subpaths].map((name) => name.replace("ts", "js"));
        return [
          {
            group: "TypeScript",
            row: version,
            column: `${format}, ${resolver}`,
            name: `${version}, ${format}, ${resolver}`,
            example: "typescript",
            runtimes: ["24"],
            script:
              `${tsc} ${common} ${flags} ${source} ${subpaths} && ` +
              `node out/${output} && node out/${imports}`,
          },
        ];
      }),
    ),
  );
}
