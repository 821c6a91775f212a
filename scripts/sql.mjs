// Turns src/stores/*/sql/*.sql into a module per store, so that nothing has to be read from disk at run time.
// Comments and line breaks stay behind. Names in braces are put in when a store is opened.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const stores = join(import.meta.dirname, "..", "src", "stores");

/** The stores that have statements. */
export function sqlStores() {
  return readdirSync(stores).filter((name) => existsSync(join(stores, name, "sql")));
}

export const sqlModule = (store) => join(stores, store, "sql.generated.ts");

/** One statement per `-- :name` of a file; a file without any is one statement with its own name. */
function statementsOf(path, fileName) {
  const found = new Map();
  let lines = [];
  const begin = (name) => found.set(name, (lines = []));
  const text = readFileSync(path, "utf8");
  if (!/^-- :name /m.test(text)) begin(fileName);
  for (const line of text.split("\n")) {
    const [, name] = /^-- :name (\w+)$/.exec(line) ?? [];
    if (name !== undefined) begin(name);
    else if (!line.trimStart().startsWith("--")) lines.push(line);
  }
  // People read these: `holdfast schema` prints them.
  const isShown = /^(schema|session_schema|functions|upgrade)$/.test(fileName);
  return [...found].map(([name, some]) => [
    name,
    isShown ? some.join("\n").trim() : some.join(" ").replaceAll(/\s+/g, " ").trim(),
  ]);
}

/** The module as it should be. */
export function generatedSql(store) {
  const folder = join(stores, store, "sql");
  const statements = readdirSync(folder)
    .flatMap((file) => statementsOf(join(folder, file), file.replace(/\.sql$/, "")))
    .sort(([one], [other]) => (one < other ? -1 : 1));
  return [
    `// The statements of src/stores/${store}/sql, made by scripts/sql.mjs: change those files and run \`npm run build\`.`,
    "",
    `export type StatementName = ${statements.map(([name]) => JSON.stringify(name)).join(" | ")};`,
    "",
    "export const statements: Readonly<Record<StatementName, string>> = {",
    ...statements.map(([name, text]) => `  ${JSON.stringify(name)}: ${JSON.stringify(text)},`),
    "};",
    "",
  ].join("\n");
}

export function writeSql() {
  for (const store of sqlStores()) writeFileSync(sqlModule(store), generatedSql(store));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeSql();
