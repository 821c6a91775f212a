// Which folders of test/ hold tests: each is a project of the test runner and a part of `npm test`.
import { readdirSync } from "node:fs";
import { join } from "node:path";

/** The quick ones first, so that a plain mistake is seen early. */
const ORDER = ["tidy", "types", "unit"];

/**
 * @param {string} root
 * @returns {string[]}
 */
export function testFolders(root) {
  const folders = readdirSync(join(root, "test"), { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && holdsTests(join(root, "test", entry.name)))
    .map((entry) => entry.name)
    .sort();
  return [
    ...ORDER.filter((name) => folders.includes(name)),
    ...folders.filter((name) => !ORDER.includes(name)),
  ];
}

function holdsTests(folder) {
  return readdirSync(folder, { recursive: true }).some((name) => String(name).endsWith(".test.ts"));
}
