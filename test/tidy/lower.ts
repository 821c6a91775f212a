// `npm run tidy:lower`: updates wide-lines.json. It rejects numbers that rise. Without the file it records
// all.

import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readTree, show } from "./tree.ts";
import { checkWidth, countWideLines, lowerRecord, readRecord, RECORD } from "./width.ts";

const files = readTree(join(import.meta.dirname, "..", ".."));
const old = existsSync(RECORD) ? readRecord() : countWideLines(files);
const { record, rejected } = lowerRecord(old, files);
if (rejected.length > 0) {
  const complaints = checkWidth(files, old).filter(({ path }) => rejected.includes(path));
  console.error(complaints.map(show).join("\n"));
  process.exitCode = 1;
} else {
  writeFileSync(RECORD, `${JSON.stringify(record, null, 2)}\n`);
  const total = Object.values(record).reduce((sum, count) => sum + count, 0);
  console.log(`${total} wide lines in ${Object.keys(record).length} files`);
}
