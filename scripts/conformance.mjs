// `RUNTIME scripts/conformance.mjs memory|local`: the conformance suite on the compiled package, without a
// test runner, so that every runtime can run it. The last line is `N passed, N failed`.
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { allCases, planFor, runCase, titleOf } from "../dist/testing/index.js";
import { local, localGuarantees } from "../dist/stores/local/index.js";
import { memory } from "../dist/stores/memory/index.js";

const dir = mkdtempSync(join(tmpdir(), "hf-"));
const subjects = {
  memory: () => {
    const store = memory();
    return { name: "memory", guarantees: store.guarantees, create: () => store };
  },
  local: () => ({
    name: "local",
    guarantees: localGuarantees,
    create: () => local({ dir }),
    child: () => ({ url: `local:${dir}` }),
    footprint: () => readdirSync(dir, { recursive: true }).length,
  }),
};

const subject = subjects[process.argv[2]]?.();
if (subject === undefined) {
  console.error(`usage: scripts/conformance.mjs ${Object.keys(subjects).join("|")}`);
  process.exit(64);
}
const selected = new Set(planFor(subject.guarantees).run);
let [passed, failed] = [0, 0];
for (const one of allCases.filter(({ id }) => selected.has(id))) {
  try {
    await runCase(one, subject);
    passed += 1;
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${titleOf(one)}\n${error?.stack ?? error}`);
  }
}
rmSync(dir, { recursive: true, force: true });
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 || passed === 0 ? 1 : 0);
