import { startMysql } from "../../../scripts/servers/mysql.ts";
import { modelCases } from "./model-cases.ts";

modelCases({ start: startMysql });
