// The statements with the names of tables and functions put in.

import { type StatementName, statements } from "./sql.generated.ts";

export type Sql = Readonly<Record<StatementName, string>>;

/** In the names of the functions, so that two versions of holdfast can use one database. */
const VERSION = 2;
const TABLES = ["meta", "lock", "holder", "waiter", "ended", "overview", "fences", "sessions"];
const NAME = /\{([a-z_]+)\}/g;

/** `table` is a plain identifier, perhaps with a schema before it that is quoted where it has to be. */
export function sqlFor(table: string): Sql {
  const nameOf = (name: string): string => {
    if (name === "old_locks") return `${table}_locks`;
    // The name of an index has no schema.
    if (name === "holder_ends") return `${table.replace(/^.*\./, "")}_holder_ends`;
    return TABLES.includes(name) ? `${table}_${name}` : `${table}_${name}_${VERSION}`;
  };
  const fill = (text: string): string =>
    text
      .replaceAll(/'\{([a-z_]+)\}'/g, (_all, name: string) => `'${nameOf(name).replaceAll("'", "''")}'`)
      .replaceAll(NAME, (_all, name: string) => nameOf(name));
  const entries = Object.entries(statements).map(([name, text]) => [name, fill(text)]);
  return Object.fromEntries(entries) as Sql;
}
