// `npm run check`: types, lint, format, style and unit tests, all at once. Seconds, no servers, nothing built.
import { runTests, statics } from "./parts.mjs";

const startedMs = performance.now();
const running = [...statics.map(async (part) => [await part()]), runTests(["tidy", "unit"])];
const parts = (await Promise.all(running)).flat();
const failed = parts.filter((part) => part.failed > 0).map((part) => part.name);
const seconds = ((performance.now() - startedMs) / 1_000).toFixed(1);
console.log(failed.length > 0 ? `${seconds} s, failed: ${failed.join(", ")}` : `${seconds} s`);
process.exitCode = failed.length > 0 ? 1 : 0;
