// The tables, made on first use when this user may. When it may not, the error says what a person has to run.

import { StoreUnavailableError } from "../../core/errors.ts";
import { codeOf, DENIED, NO_SUCH_TABLE } from "./errors.ts";
import type { SqlConnection } from "./port.ts";
import { sql } from "./sql.ts";

export interface Schema {
  /** What asks whether all is there. */
  readonly probe: string;
  readonly statements: readonly string[];
}

export const rowSchema: Schema = {
  probe: "SELECT 1 FROM holdfast_row, holdfast_row_holder, holdfast_floor LIMIT 0",
  statements: [sql["floor-table"], sql["floor-row"], sql["row-table"], sql["row-holder-table"]],
};

export const tableSchema: Schema = {
  probe:
    "SELECT 1 FROM holdfast_lock, holdfast_beat, holdfast_push, holdfast_primary, holdfast_floor LIMIT 0",
  statements: [
    ...[sql["floor-table"], sql["floor-row"], sql["lock-table"], sql["beat-table"], sql["push-table"]],
    // The last one, because it is the first to be asked for.
    sql["primary-table"],
  ],
};

function ddlOf(schema: Schema): string {
  return schema.statements.map((statement) => `${statement};`).join("\n");
}

export async function ensureSchema(connection: SqlConnection, schema: Schema): Promise<void> {
  try {
    await connection.run(schema.probe);
    return;
  } catch (error) {
    // Without any right on a table the server does not even say that it is missing.
    if (codeOf(error) !== NO_SUCH_TABLE && !DENIED.includes(codeOf(error))) throw error;
  }
  try {
    for (const statement of schema.statements) await connection.run(statement);
    await connection.run(schema.probe);
  } catch (error) {
    if (!DENIED.includes(codeOf(error))) throw error;
    throw new StoreUnavailableError(
      `the tables of holdfast are missing and this user may not create them. Run this once, and grant SELECT, INSERT, UPDATE, DELETE on them:\n${ddlOf(schema)}`,
      { cause: error, retryable: false },
    );
  }
}
