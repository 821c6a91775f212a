// `npm test`: builds, then everything that `check` does, then every folder of tests, with real servers.
// The last line is always `N passed, N failed`; a part that fails without a failed test of its own counts as one.
import { allTestParts, build, show, statics, tests } from "./parts.mjs";

/** Folders that mostly wait for servers of their own: two at a time. */
const IN_PAIRS = [
  ...["docs", "etcd", "examples", "fence", "fuzz", "mysql", "package"],
  ...["postgres", "redlock", "security", "servers", "zookeeper"],
];

const QUICK = ["tidy", "types", "unit"];
/** Folders that wait for processes and servers most of the time, and the one that needs nothing but the processor, beside them. */
const WAITING = ["cli", "local", "redis"];
const VIRTUAL = "sim";
const known = [...IN_PAIRS, ...QUICK, ...WAITING, VIRTUAL];

/** The other folders after one another: they measure time and must not disturb each other. */
async function main() {
  const outcomes = [shown(await build())];
  if (!outcomes[0].ok) return outcomes;
  outcomes.push(...(await Promise.all(statics.map((part) => part()))).map(shown));
  const folders = allTestParts()
    .filter(({ isLong }) => !isLong)
    .map(({ name }) => name);
  outcomes.push(...(await oneByOne(folders.filter((name) => QUICK.includes(name)))));
  const beside = tests(VIRTUAL, { nice: true }).then(shown);
  outcomes.push(...(await oneByOne(folders.filter((name) => WAITING.includes(name)))), await beside);
  outcomes.push(...(await oneByOne(folders.filter((name) => !known.includes(name)))));
  const left = folders.filter((name) => IN_PAIRS.includes(name));
  const worker = async () => {
    for (let folder = left.shift(); folder !== undefined; folder = left.shift())
      outcomes.push(shown(await tests(folder)));
  };
  await Promise.all([worker(), worker()]);
  return outcomes;
}

async function oneByOne(folders) {
  const outcomes = [];
  for (const folder of folders) outcomes.push(shown(await tests(folder)));
  return outcomes;
}

function shown(outcome) {
  show(outcome);
  return outcome;
}

const startedMs = performance.now();
const outcomes = await main();
const sum = (pick) => outcomes.reduce((total, outcome) => total + pick(outcome), 0);
const failed = sum((outcome) => outcome.failed);
console.log("\nminutes per part");
for (const { name, seconds } of outcomes)
  console.log(`${name.padEnd(12)} ${(seconds / 60).toFixed(2).padStart(6)}`);
console.log(`${"in all".padEnd(12)} ${((performance.now() - startedMs) / 60_000).toFixed(2).padStart(6)}\n`);
console.log(`${sum((outcome) => outcome.passed)} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
