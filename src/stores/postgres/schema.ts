// Where the tables are. All processes of a database use the same ones, whatever their search_path is: a name
// without a schema means the one schema that has such a table, and statements always name the schema.

import { UnsafeStoreError } from "../../core/errors.ts";
import { readSettings, refuseUnsafe, type Settings } from "./check.ts";
import { destroy, forEver, type OwnClient, type PgPort, type Row } from "./port.ts";
import { type Sql, sqlFor } from "./sql.ts";

export type Mode = "table" | "advisory";

export interface Place {
  readonly table: string;
  readonly mode: Mode;
}

type Query = (text: string, values: readonly unknown[]) => Promise<readonly Row[]>;

/** Serializes those who create tables: `IF NOT EXISTS` alone fails in one of two who do it at one moment. */
const ALONE = "SELECT pg_advisory_xact_lock(hashtextextended('holdfast: tables', 0))";

/** The statements of a mode, with the tables that these statements need as `schema`. */
export function statementsFor({ table, mode }: Place): Sql {
  const sql = sqlFor(table);
  return mode === "table" ? sql : { ...sql, settings: sql.session_settings, schema: sql.session_schema };
}

/** Finds the tables, or creates them. Refuses a server that cannot keep a lock. */
export async function openTables(
  port: PgPort,
  place: Place,
): Promise<{ readonly sql: Sql; readonly settings: Settings }> {
  let sql = await locate(place, (text, values) => port.query(text, values, forEver()));
  const settings = await readSettings(port, sql, forEver());
  refuseUnsafe(settings);
  if (!settings.ready) sql = await createAlone(port, place);
  port.remakeBy(() => recreate(port, sql));
  return { sql, settings };
}

/** 1. Lock. 2. Look again, because another process may have created the tables elsewhere. 3. Create. */
async function createAlone(port: PgPort, place: Place): Promise<Sql> {
  const client = await port.connect();
  try {
    await client.query({ text: `BEGIN ISOLATION LEVEL READ COMMITTED; ${ALONE}` });
    const sql = await locate(place, (text, values) => rowsOf(client, text, values));
    await client.query({ text: sql.schema });
    await client.query({ text: "COMMIT" });
    return sql;
  } finally {
    destroy(client);
  }
}

/** In the schema where the tables were. One message is one transaction. */
async function recreate(port: PgPort, sql: Sql): Promise<void> {
  await port.query(`${ALONE};\n${sql.schema}`, [], forEver());
}

async function locate(place: Place, query: Query): Promise<Sql> {
  const { table, mode } = place;
  if (table.includes(".")) return statementsFor(place);
  const name = `${table}_${mode === "table" ? "locks" : "fences"}`;
  const rows = await query(sqlFor(table).locate, [name]);
  if (rows.length > 1) throw ambiguous(table, rows);
  const schema = rows[0]?.["schema"] ?? rows[0]?.["target"] ?? "public";
  return statementsFor({ table: `${schema}.${table}`, mode });
}

async function rowsOf(client: OwnClient, text: string, values: readonly unknown[]): Promise<readonly Row[]> {
  return (await client.query({ text, values })).rows;
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
