// `npm run mutants`: kills them all and writes down who killed whom.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { kill, killByTests, type Killed } from "./kill.ts";
import { mutants } from "./list.ts";
import { redisMutants } from "./redis-list.ts";
import { redlockMutants } from "./redlock-list.ts";
import { unitMutants } from "./unit-list.ts";

const only = process.argv[2];
const isAsked = ({ name }: { readonly name: string }): boolean => only === undefined || name.includes(only);
const killed: Killed[] = [];
for (const mutant of [...mutants, ...redisMutants, ...redlockMutants].filter(isAsked)) {
  killed.push(report(kill(mutant, 1, 3_000)));
}
const byTests = unitMutants.filter(isAsked).map((mutant) => report(killByTests(mutant)));
if (only === undefined) {
  writeFileSync(join(import.meta.dirname, "killed.json"), `${JSON.stringify(killed, null, 2)}\n`);
}
process.exitCode = [...killed, ...byTests].every(({ by }) => by !== null) ? 0 : 1;

function report(result: Killed): Killed {
  const { by, mutant, runs, seconds } = result;
  const fate = by === null ? "SURVIVED" : "killed";
  console.log(`${fate}  ${mutant}: ${by} after ${runs} runs, ${seconds.toFixed(1)} s`);
  return result;
}
