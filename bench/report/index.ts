// `npm run bench -- --report`: writes docs/appendix/benchmarks.md and its plots, and the measured parts of
// docs/stores/choosing.md, from the recorded results.

import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { writeParts } from "../../scripts/generated.ts";
import { readSuiteResults } from "../results.ts";
import { benchmarks } from "./benchmarks.ts";
import { measuredTable, storesPlot } from "./choosing.ts";
import { readSuites } from "./read.ts";

const bench = join(import.meta.dirname, "..");
const docs = join(bench, "..", "docs");

const SOAK = "soak.svg";

export function report(): void {
  const suites = readSuites(readSuiteResults());
  const written = benchmarks(suites, bench);
  const stores = storesPlot(suites);
  const plots = join(docs, "appendix", "plots");
  mkdirSync(plots, { recursive: true });
  // A plot whose suite no longer measures it would stay for ever.
  // That of the long run is made with the page of evidence.
  const ours = readdirSync(plots).filter((one) => one.endsWith(".svg") && one !== SOAK);
  for (const name of ours) rmSync(join(plots, name));
  for (const { file, svg } of [...written.plots, ...(stores === null ? [] : [stores])])
    writeFileSync(join(plots, file), svg);
  writeParts(join(docs, "appendix", "benchmarks.md"), { figures: written.text });
  writeParts(join(docs, "stores", "choosing.md"), { measured: measuredTable(suites) });
  const pages = "docs/appendix/benchmarks.md, docs/stores/choosing.md";
  console.log(`written: ${pages}, ${written.plots.length + 1} plots`);
}
