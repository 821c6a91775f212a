// What every session of the store sets before its first statement. The server, the user or a proxy may have
// other defaults, and some of them change what a statement does. Under `sql_mode` ORACLE or
// SIMULTANEOUS_ASSIGNMENT an assignment does not see the ones before it, so that a grant would be written
// without its fence and its end.

/** A row or a table that stays locked for longer is an error, so that no statement waits for long. */
const LOCK_WAIT_S = 2;

/** A procedure keeps the sql_mode of the session that created it. */
export const SQL_MODE = "sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'";

const SETTINGS = [
  SQL_MODE,
  "autocommit = 1",
  "completion_type = 0",
  "time_zone = '+00:00'",
  `innodb_lock_wait_timeout = ${LOCK_WAIT_S}`,
  `lock_wait_timeout = ${LOCK_WAIT_S}`,
  "sql_select_limit = 18446744073709551615",
].join(", ");

/** A limit of time would end the waits of the store. Each server reads its own comment. */
const NO_TIME_LIMIT = "/*M!100101 , max_statement_time = 0 */ /*!50708 , max_execution_time = 0 */";

/** Two statements, because the variable of the isolation level has different names on MySQL and MariaDB. */
export const SESSION_SETTINGS: readonly string[] = [
  "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
  `SET SESSION ${SETTINGS} ${NO_TIME_LIMIT}`,
];
