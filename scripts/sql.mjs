// Turns src/stores/*/sql/*.sql into a module per store, so that nothing has to be read from disk at run time. Comments and line
// breaks stay behind; names of tables in braces are put in when a store is opened.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

const stores = join(import.meta.dirname, "..", "src", "stores");

/** The stores that have statements. */
export function sqlStores() {
  return readdirSync(stores).filter((name) => existsSync(join(stores, name, "sql")));
}

export const sqlModule = (store) => join(stores, store, "sql.generated.ts");

function textOf(path) {
  const lines = readFileSync(path, "utf8")
    .split("\n")
    .filter((line) => !line.trimStart().startsWith("--"));
  // People run these: `holdfast schema` prints them.
  if (/^(schema|session_schema|functions|upgrade)\.sql$/.test(basename(path))) return lines.join("\n").trim();
  return lines.join(" ").replaceAll(/\s+/g, " ").trim();
}

/** The module as it should be. */
export function generatedSql(store) {
  const folder = join(stores, store, "sql");
  const names = readdirSync(folder)
    .map((file) => file.replace(/\.sql$/, ""))
    .sort();
  return [
    `// The statements of src/stores/${store}/sql, made by scripts/sql.mjs: change those files and run \`npm run build\`.`,
    "",
    `export type StatementName = ${names.map((name) => JSON.stringify(name)).join(" | ")};`,
    "",
    "export const statements: Readonly<Record<StatementName, string>> = {",
    ...names.map(
      (name) => `  ${JSON.stringify(name)}: ${JSON.stringify(textOf(join(folder, `${name}.sql`)))},`,
    ),
    "};",
    "",
  ].join("\n");
}

export function writeSql() {
  for (const store of sqlStores()) writeFileSync(sqlModule(store), generatedSql(store));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeSql();
