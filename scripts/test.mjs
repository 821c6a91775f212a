// `npm test`: builds, checks types, lint and format, and runs every part of the tests, with real servers and
// processes. `npm run test:all` (`--all`): the long parts too, and other versions of Node. The last line is
// always `N passed, N failed`; a part that fails without a failed test of its own counts as one.
import { build, root, runPart, runTests, statics } from "./parts.mjs";
import { testParts } from "./test-parts.mjs";

const isAll = process.argv.includes("--all");

/** More random histories than in `npm test`, and others each time. */
const LONGER = { HOLDFAST_HISTORIES: "150" };

async function main() {
  const parts = [await build()];
  if (parts[0].failed > 0) return parts;
  parts.push(...(await Promise.all(statics.map((part) => part()))));
  // First, because to unpack servers beside the tests would slow them down. Takes a second when they are
  // there.
  const servers = isAll ? "all" : "default";
  parts.push(await runPart("install", ["--import", "tsx", "scripts/servers.ts", "install", servers]));
  const names = testParts(root)
    .filter(({ isLong }) => isAll || !isLong)
    .map(({ name }) => name);
  parts.push(...(await runTests(names, isAll ? LONGER : {})));
  if (isAll) parts.push(await runPart("runtimes", ["--import", "tsx", "scripts/runtimes.ts"]));
  return parts;
}

const startedMs = performance.now();
const parts = await main();
const minutes = (seconds) => (seconds / 60).toFixed(2).padStart(6);
console.log("\nminutes per part (files of different parts run beside each other)");
for (const { name, seconds } of parts) console.log(`${name.padEnd(16)} ${minutes(seconds)}`);
console.log(`${"in all".padEnd(16)} ${minutes((performance.now() - startedMs) / 1_000)}\n`);
const sum = (pick) => parts.reduce((total, part) => total + pick(part), 0);
const failed = sum((part) => part.failed);
console.log(`${sum((part) => part.passed)} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
