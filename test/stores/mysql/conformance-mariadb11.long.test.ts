import { startMariadb } from "../../../scripts/servers/mariadb.ts";
import { testStore } from "../../../src/testing/index.ts";
import { mysqlSubject } from "./subject.ts";
import { runner } from "../../support/conformance-runner.ts";

const start: typeof startMariadb = (options) => startMariadb({ ...options, newest: true });

testStore({ runner, ...mysqlSubject("table", { start }) });
