// `npm run mutants`: kills them all and writes down who killed whom. `npm run mutants -- TEXT` kills those
// with TEXT in their name.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { readUsage } from "../../scripts/usage.mjs";
import { kill, killByTests, type Killed } from "./kill.ts";
import { mutants } from "./list.ts";
import { redisMutants } from "./redis-list.ts";
import { redlockMutants } from "./redlock-list.ts";
import { unitMutants } from "./unit-list.ts";

const USAGE = `npm run mutants -- [TEXT]

Kills every mutant, or those with TEXT in their name. Exits with 1 when a mutant survived, and with 64 when no
mutant has that name.`;

const all = [...mutants, ...redisMutants, ...redlockMutants];
const only = readUsage(USAGE, ([text, ...others]) => {
  const names = [...all, ...unitMutants].map(({ name }) => name);
  if (others.length > 0) throw new Error("name one text");
  if (text !== undefined && !names.some((name) => name.includes(text)))
    throw new Error(`no mutant is called ${text}`);
  return text;
});
const isAsked = ({ name }: { readonly name: string }): boolean => only === undefined || name.includes(only);
const killed: Killed[] = [];
for (const mutant of all.filter(isAsked)) {
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
