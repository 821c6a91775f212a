// `npm run check`: types, lint, format, style and unit tests, all at once. Seconds, no servers, nothing built.
import { allTestParts, show, statics, tests } from "./parts.mjs";

const QUICK = ["tidy", "unit"];

const started = performance.now();
const quick = allTestParts()
  .map(({ name }) => name)
  .filter((name) => QUICK.includes(name));
const running = [...statics.map((part) => part()), ...quick.map((folder) => tests(folder))];
for (const part of running) void part.then(show);
const outcomes = await Promise.all(running);
const failed = outcomes.filter((outcome) => !outcome.ok).map((outcome) => outcome.name);
console.log(
  `${((performance.now() - started) / 1_000).toFixed(1)} s${failed.length > 0 ? `, failed: ${failed.join(", ")}` : ""}`,
);
process.exitCode = failed.length > 0 ? 1 : 0;
