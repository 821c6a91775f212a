// `npm run mutants`: kills them all and writes down who killed whom.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { kill, type Killed } from "./kill.ts";
import { mutants } from "./list.ts";
import { redisMutants } from "./redis-list.ts";
import { redlockMutants } from "./redlock-list.ts";

const only = process.argv[2];
const killed: Killed[] = [];
for (const mutant of [...mutants, ...redisMutants, ...redlockMutants].filter(
  ({ name }) => only === undefined || name.includes(only),
)) {
  const result = kill(mutant, 1, 3_000);
  killed.push(result);
  console.log(
    `${result.by === null ? "SURVIVED" : "killed"}  ${mutant.name}: ${result.by} after ${result.runs} runs, ${result.seconds.toFixed(1)} s`,
  );
}
if (only === undefined) {
  writeFileSync(join(import.meta.dirname, "killed.json"), `${JSON.stringify(killed, null, 2)}\n`);
}
process.exitCode = killed.every(({ by }) => by !== null) ? 0 : 1;
