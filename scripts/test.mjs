// `npm test`: builds, then everything that `check` does, then every folder of tests, with real servers.
// The last line is always `N passed, N failed`; a part that fails without a failed test of its own counts as one.
import { allTestFolders, build, show, statics, tests } from "./parts.mjs";

/** Those folders after one another: they measure time and must not disturb each other. */
async function main() {
  const outcomes = [shown(await build())];
  if (!outcomes[0].ok) return outcomes;
  outcomes.push(...(await Promise.all(statics.map((part) => part()))).map(shown));
  for (const folder of allTestFolders()) outcomes.push(shown(await tests(folder)));
  return outcomes;
}

function shown(outcome) {
  show(outcome);
  return outcome;
}

const outcomes = await main();
const sum = (pick) => outcomes.reduce((total, outcome) => total + pick(outcome), 0);
const failed = sum((outcome) => outcome.failed);
console.log("\nminutes per part");
for (const { name, seconds } of outcomes)
  console.log(`${name.padEnd(12)} ${(seconds / 60).toFixed(2).padStart(6)}`);
console.log(`${"sum".padEnd(12)} ${(sum((outcome) => outcome.seconds) / 60).toFixed(2).padStart(6)}\n`);
console.log(`${sum((outcome) => outcome.passed)} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
