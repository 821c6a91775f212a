// The parts that the tests are made of. Each part is a project of vitest, so `npx vitest run --project redis` runs one.
// `unit` is the tests beside the source, `test/<part>/` is one part each, and `test/stores/<store>/` is one part per store.
// Files that end in `.long.test.ts` form a part of their own, `<part>-long`, which only `npm run test:all` runs.
import { readdirSync } from "node:fs";
import { join } from "node:path";

const LONG = ".long.test.ts";
const UNIT = ["src", "scripts", "bench"];

/** @typedef {{ name: string, isLong: boolean, include: string[], exclude: string[] }} TestPart */

/**
 * @param {string} root
 * @returns {TestPart[]}
 */
export function testParts(root) {
  const folders = ["test", "test/stores"]
    .flatMap((parent) => foldersIn(root, parent).map((name) => ({ name, folders: [`${parent}/${name}`] })))
    .filter(({ name }) => name !== "stores");
  return [{ name: "unit", folders: UNIT }, ...folders].flatMap((part) => variantsOf(root, part));
}

function foldersIn(root, parent) {
  return readdirSync(join(root, parent), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name)
    .sort();
}

function variantsOf(root, { name, folders }) {
  const files = folders.flatMap((folder) => testFilesIn(join(root, folder)));
  const include = folders.map((folder) => `${folder}/**/*.test.ts`);
  const longs = folders.map((folder) => `${folder}/**/*${LONG}`);
  const parts = [];
  if (files.some((file) => !file.endsWith(LONG)))
    parts.push({ name, isLong: false, include, exclude: longs });
  if (files.some((file) => file.endsWith(LONG)))
    parts.push({ name: `${name}-long`, isLong: true, include: longs, exclude: [] });
  return parts;
}

/** The peers of the benchmarks include a link to this project: following links would never end. */
function testFilesIn(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (entry.isDirectory() && entry.name !== "node_modules") return testFilesIn(join(folder, entry.name));
    return entry.name.endsWith(".test.ts") ? [entry.name] : [];
  });
}
