// The statements with the names of the tables put in.

import { type StatementName, statements } from "./sql.generated.ts";

export type Sql = Readonly<Record<StatementName, string>>;

/**
 * The server's time, and settings that last for this statement only. They are made inside of the statement,
 * because a session of the caller's pool must be left as it was, and behind a pooler the next statement may
 * meet another session. They work because PostgreSQL reads `lock_timeout` when a wait begins and
 * `synchronous_commit` when the statement commits. A statement reaches its rows through `c`, so that the
 * settings are made before any row is locked.
 */
const CLOCK = `c AS MATERIALIZED (SELECT clock_timestamp() AS now,
  CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END,
  set_config('lock_timeout', '1500', true))`.replaceAll(/\s+/g, " ");

/** `table` is a plain identifier, perhaps with a schema before it that is quoted where it has to be. */
export function sqlFor(table: string): Sql {
  const literal = `'${table.replaceAll("'", "''")}`;
  const fill = (text: string): string =>
    text
      .replaceAll("{clock}", CLOCK)
      .replaceAll(/'\{(locks|beats|fences|sessions)\}'/g, (_all, name: string) => `${literal}_${name}'`)
      .replaceAll(/\{(locks|beats|fences|sessions)\}/g, (_all, name: string) => `${table}_${name}`);
  const entries = Object.entries(statements).map(([name, text]) => [name, fill(text)]);
  return Object.fromEntries(entries) as Sql;
}
