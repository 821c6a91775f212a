import { sessionSettingsCases } from "./session-settings-cases.ts";

sessionSettingsCases([
  ["sql_mode", "'ORACLE'"],
  ["sql_mode", "'SIMULTANEOUS_ASSIGNMENT'"],
  ["sql_mode", "'EMPTY_STRING_IS_NULL'"],
  ["tx_isolation", "'SERIALIZABLE'"],
  ["max_statement_time", "0.3"],
]);
