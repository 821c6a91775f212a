// The statements, with the fragments that they share put in.

import { type StatementName, statements } from "./sql.generated.ts";

export type { StatementName } from "./sql.generated.ts";

function fill(text: string): string {
  return text.replaceAll(/\{([a-z_]+)\}/g, (all, name: string) => {
    const fragment = (statements as Readonly<Record<string, string>>)[name];
    return fragment === undefined ? all : fill(fragment);
  });
}

const entries = Object.entries(statements).map(([name, text]) => [name, fill(text)]);

export const sql: Readonly<Record<StatementName, string>> = Object.fromEntries(entries) as Record<
  StatementName,
  string
>;
