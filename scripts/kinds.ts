// `npm run kinds`: which store has which kind, and how many conformance cases each of them runs for it. Made from what the
// stores declare; a kind that a store does not declare is refused by name (UnsupportedError).

import type { Guarantees, Kind } from "../src/index.ts";
import { planFor } from "../src/testing/index.ts";
import { pinned } from "../test/conformance/pinned.ts";

const KINDS: readonly Kind[] = ["exclusive", "shared", "semaphore", "multi", "keep"];

const runs = (guarantees: Guarantees, kinds: readonly Kind[]): number =>
  planFor({ ...guarantees, kinds }).run.filter((id) => id !== "api/unsupported").length;

/** What a store would not run without the kind; of exclusive, what needs no other. */
function casesFor(kind: Kind, guarantees: Guarantees): number {
  if (kind === "exclusive") return runs(guarantees, ["exclusive"]);
  const without = guarantees.kinds.filter((one) => one !== kind);
  return runs(guarantees, guarantees.kinds) - runs(guarantees, without);
}

console.log(`| store | ${KINDS.join(" | ")} | all cases |\n|---|${"---|".repeat(KINDS.length + 1)}`);
for (const [name, row] of Object.entries(pinned)) {
  // The rest of the guarantees are words, which select no case.
  const guarantees: Guarantees = { survives: [], needs: [], ...row.guarantees };
  const cells = KINDS.map((kind) =>
    guarantees.kinds.includes(kind) ? String(casesFor(kind, guarantees)) : "refused",
  );
  console.log(`| ${[name, ...cells, String(planFor(guarantees).run.length)].join(" | ")} |`);
}
