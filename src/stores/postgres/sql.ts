// The statements with the names of the tables put in.

import { type StatementName, statements } from "./sql.generated.ts";

export type Sql = Readonly<Record<StatementName, string>>;

/** `table` is a plain identifier, perhaps with a schema before it; it has been checked. */
export function sqlFor(table: string): Sql {
  const fill = (text: string): string =>
    text.replaceAll(/\{(locks|beats|fences|sessions)\}/g, (_all, name: string) => `${table}_${name}`);
  const entries = Object.entries(statements).map(([name, text]) => [name, fill(text)]);
  return Object.fromEntries(entries) as Sql;
}
