// Where the tables are, and how they come to be. All processes of a database use the same ones, whatever
// their search_path is: a name without a schema means the one schema that has such a table, and statements
// always name the schema.

import { StoreUnavailableError, UnsafeStoreError } from "../../core/errors.ts";
import { type Connections, destroy, newCall, type OwnClient, type Row } from "./client/connections.ts";
import { readSettings, refuseUnsafe, type ServerSettings } from "./health.ts";
import type { PostgresSettings } from "./options.ts";
import { type Sql, sqlFor } from "./sql.ts";

type Query = (text: string, values: readonly unknown[]) => Promise<readonly Row[]>;

/** Serializes those who create tables: `IF NOT EXISTS` alone fails in one of two who do it at one moment. */
const ALONE = "SELECT pg_advisory_xact_lock(hashtextextended('holdfast: tables', 0))";

/** The statements that create everything for a mode. They may be run again. */
export function fullSchema(table: string, mode: PostgresSettings["mode"] = "table"): string {
  const sql = sqlFor(table);
  return mode === "table" ? `${sql.schema}\n${sql.functions}\n${sql.upgrade}\n` : `${sql.session_schema}\n`;
}

/** Finds the tables, or creates them. Rejects a server that cannot keep a lock. */
export async function openTables(
  connections: Connections,
  settings: PostgresSettings,
): Promise<{ readonly sql: Sql; readonly server: ServerSettings }> {
  const query: Query = (text, values) => connections.query(text, values, newCall());
  let table = await locate(settings, query);
  const { settings: text, session_settings: advisoryText } = sqlFor(table);
  const server = await readSettings(connections, settings.mode === "table" ? text : advisoryText, newCall());
  refuseUnsafe(server);
  if (!server.ready) {
    if (!settings.createSchema) throw missingSchema(settings);
    table = await createAlone(connections, settings);
  }
  const ddl = fullSchema(table, settings.mode);
  if (settings.createSchema)
    connections.onMissingTable(() => connections.query(`${ALONE};\n${ddl}`, [], newCall()).then(() => {}));
  return { sql: sqlFor(table), server };
}

/** 1. Lock. 2. Look again, because another process may have created the tables elsewhere. 3. Create. */
async function createAlone(connections: Connections, settings: PostgresSettings): Promise<string> {
  const client = await connections.connect();
  try {
    await client.query({ text: `BEGIN ISOLATION LEVEL READ COMMITTED; ${ALONE}` });
    const table = await locate(settings, (text, values) => rowsOf(client, text, values));
    await client.query({ text: fullSchema(table, settings.mode) });
    await client.query({ text: "COMMIT" });
    return table;
  } finally {
    destroy(client);
  }
}

/** The prefix of the tables, with their schema. */
async function locate({ table, mode }: PostgresSettings, query: Query): Promise<string> {
  if (table.includes(".")) return table;
  const name = `${table}_${mode === "table" ? "lock" : "fences"}`;
  let rows = await query(sqlFor(table).locate, [name]);
  // Beside the tables of an earlier version, which must not be used at the same time (upgrade.sql).
  if (mode === "table" && rows[0]?.["schema"] === null)
    rows = await query(sqlFor(table).locate, [`${table}_locks`]);
  if (rows.length > 1) throw ambiguous(table, rows);
  const schema = rows[0]?.["schema"] ?? rows[0]?.["target"] ?? "public";
  return `${schema}.${table}`;
}

async function rowsOf(client: OwnClient, text: string, values: readonly unknown[]): Promise<readonly Row[]> {
  return (await client.query({ text, values })).rows;
}

function missingSchema({ table }: PostgresSettings): StoreUnavailableError {
  return new StoreUnavailableError(
    `the tables or functions of holdfast (${table}_...) are missing, and createSchema is false: ` +
      "run what `holdfast schema postgres` prints, as a user who may create them",
    { retryable: false },
  );
}

function ambiguous(table: string, rows: readonly Row[]): UnsafeStoreError {
  const schemas = rows.map((row) => row["schema"]).join(", ");
  return new UnsafeStoreError(
    `several schemas of this database have tables of the name ${table} (${schemas}), ` +
      "and processes that use different ones do not exclude each other",
    {
      setting: "search_path",
      fix:
        `name the schema in every process, such as ?table=${rows[0]?.["schema"]}.${table}, ` +
        "or drop the tables that nobody uses",
    },
  );
}
