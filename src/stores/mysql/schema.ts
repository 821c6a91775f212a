// The tables and procedures: in versions, made on first use under a named lock when this user may. When it
// may not, or the caller forbids it, the error names the command that prints the statements.

import { StoreUnavailableError } from "../../core/errors.ts";
import { codeOf, DENIED, INCOMPLETE_SCHEMA } from "./errors.ts";
import type { SqlConnection } from "./client/port.ts";
import { SQL_MODE } from "./client/session-settings.ts";
import { sql } from "./sql.ts";

/** Of the tables and procedures of the lease table. Procedures have it in their names. */
export const SCHEMA_VERSION = 1;

const TABLES: readonly string[] = [
  ...[sql["table_old"], sql["table_locks"], sql["table_holders"], sql["table_waiters"], sql["table_ended"]],
  ...[sql["table_revocations"], sql["table_floors"], sql["table_primary"], sql["table_meta"]],
];

const PROCEDURES: readonly string[] = [
  ...[sql["procedure_check_primary"], sql["procedure_sweep"], sql["procedure_remove_holder"]],
  ...[sql["procedure_call_waiter"], sql["procedure_wake"], sql["procedure_attempt"]],
  ...[sql["procedure_release"], sql["procedure_renew"], sql["procedure_revoke"], sql["procedure_clean"]],
];

const ROW_TABLES: readonly string[] = [sql["table_row"], sql["table_row_holder"]];

const PROCEDURE_EXISTS = 1304;
const SYNTAX_ERROR = 1064;
const LOCK = "CONCAT('holdfast:schema:', LEFT(SHA2(DATABASE(), 256), 32))";
const LOCK_WAIT_S = 10;
const RIGHTS =
  "SELECT, INSERT, UPDATE, DELETE on the tables holdfast_% and, for the lease table, EXECUTE on the " +
  "procedures";

const TABLE_MODE_RIGHTS =
  "it needs CREATE and CREATE ROUTINE, or row mode (mode=row), which has no procedures";

/** Everything that both modes need, as the command-line client of MySQL and MariaDB reads it. */
export function schemaSql(): string {
  const procedures = PROCEDURES.map((text) => `${dropOf(text)}//\n${text}//`).join("\n");
  const tables = [...TABLES, ...ROW_TABLES].map((text) => `${text};`).join("\n");
  const settings = `SET SESSION ${SQL_MODE};`;
  return `${settings}\n${tables}\nDELIMITER //\n${procedures}\nDELIMITER ;\n${sql["set_version"]};\n`;
}

function dropOf(procedure: string): string {
  const [, name = ""] = /^CREATE PROCEDURE (\w+)/.exec(procedure) ?? [];
  return `DROP PROCEDURE IF EXISTS ${name}`;
}

export interface Schema {
  /** Creates what is missing. */
  create(connection: SqlConnection): Promise<void>;
}

/** `mayCreate` false: nothing is made at run time. */
export function tableSchema(mayCreate: boolean): Schema {
  return {
    async create(connection) {
      if (!mayCreate) throw missing("createSchema is false");
      await create(connection, [...TABLES, ...PROCEDURES, sql["set_version"]], TABLE_MODE_RIGHTS);
    },
  };
}

export function rowSchema(mayCreate: boolean): Schema {
  return {
    async create(connection) {
      if (await hasRowTables(connection)) return;
      if (!mayCreate) throw missing("createSchema is false");
      await create(connection, ROW_TABLES);
    },
  };
}

async function hasRowTables(connection: SqlConnection): Promise<boolean> {
  try {
    await connection.run("SELECT 1 FROM holdfast_row, holdfast_row_holder LIMIT 0");
    return true;
  } catch (error) {
    // Without any right on a table the server does not even say that it is missing.
    if (!INCOMPLETE_SCHEMA.includes(codeOf(error)) && !DENIED.includes(codeOf(error))) throw error;
    return false;
  }
}

/** Under a named lock, so that processes that start together do not disturb each other. */
async function create(
  connection: SqlConnection,
  statements: readonly string[],
  rights = "it needs CREATE",
): Promise<void> {
  await connection.run(`DO GET_LOCK(${LOCK}, ${LOCK_WAIT_S})`);
  try {
    for (const statement of statements) await createOne(connection, statement);
  } catch (error) {
    if (!DENIED.includes(codeOf(error))) throw error;
    throw missing(`this user may not create them: ${rights}`, error);
  } finally {
    if (connection.alive) await connection.run(`DO RELEASE_LOCK(${LOCK})`);
  }
}

/**
 * With IF NOT EXISTS, because each of two servers that replicate both ways is asked to create it, and a
 * statement that fails on the other one would end the replication. MySQL before 8.0.29 does not know it for
 * procedures.
 */
async function createOne(connection: SqlConnection, statement: string): Promise<void> {
  const careful = statement.replace(/^CREATE PROCEDURE /, "CREATE PROCEDURE IF NOT EXISTS ");
  await connection.run(careful).catch(async (error: unknown) => {
    if (codeOf(error) !== SYNTAX_ERROR || careful === statement) throw error;
    await connection.run(statement).catch((again: unknown) => {
      if (codeOf(again) !== PROCEDURE_EXISTS) throw again;
    });
  });
}

function missing(why: string, cause?: unknown): StoreUnavailableError {
  return new StoreUnavailableError(
    `the tables or procedures of holdfast are missing, and ${why}. Run once what \`holdfast schema mysql\` ` +
      `prints, and grant ${RIGHTS}`,
    { cause, retryable: false },
  );
}

/**
 * Versions 0.1 and 0.2 kept their locks in the table holdfast_lock. Nothing is opened while one of them may
 * be live. Then that table is replaced, so that a process of those versions cannot take a lock later (P22).
 */
export async function replaceOldTable(connection: SqlConnection, mayCreate: boolean): Promise<void> {
  const live = await countOldLocks(connection, sql["count_old_locks"]);
  // The usual case: there is no such table, or it was replaced.
  if (live === null) return;
  refuseLive(live);
  if (!mayCreate) return;
  await connection.run(`DO GET_LOCK(${LOCK}, ${LOCK_WAIT_S})`);
  try {
    if ((await countOldLocks(connection, sql["count_old_locks"])) !== null) await replace(connection);
  } catch (error) {
    // A user without these rights stops all processes of the old version before it starts this one.
    if (!DENIED.includes(codeOf(error))) throw error;
  } finally {
    if (connection.alive) await connection.run(`DO RELEASE_LOCK(${LOCK})`);
  }
}

/** A lock may have been taken after the first look. Nobody can take one while the table is set aside. */
async function replace(connection: SqlConnection): Promise<void> {
  // Left by an upgrade that was taken back, or that did not come to its end.
  refuseLive((await countOldLocks(connection, sql["count_locks_aside"])) ?? 0);
  await connection.run(sql["drop_aside"]);
  await connection.run(sql["set_old_aside"]);
  const live = await countOldLocks(connection, sql["count_locks_aside"]);
  if (live !== null && live > 0) await connection.run(sql["put_old_back"]);
  else await connection.run(sql["table_old"]);
  refuseLive(live ?? 0);
}

/** Null if there is no such table, or it is not that of an old version. */
async function countOldLocks(connection: SqlConnection, statement: string): Promise<number | null> {
  try {
    const { rows } = await connection.run(statement);
    return Number(rows[0]?.["locks"] ?? 0);
  } catch (error) {
    if (codeOf(error) === 0) throw error;
    return null;
  }
}

function refuseLive(locks: number): void {
  if (locks === 0) return;
  throw new StoreUnavailableError(
    `${locks} locks of holdfast 0.1 or 0.2 may be live in the table holdfast_lock, and this version does ` +
      "not exclude them. Stop all processes of that version and wait until their leases have ended, or " +
      "drop the table",
  );
}
