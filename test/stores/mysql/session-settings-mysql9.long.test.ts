import { startMysql } from "../../../scripts/servers/mysql.ts";
import { sessionSettingsCases } from "./session-settings-cases.ts";

sessionSettingsCases(
  [
    ["transaction_isolation", "'SERIALIZABLE'"],
    ["max_execution_time", "300"],
    ["sql_require_primary_key", "1"],
  ],
  { start: startMysql },
);
