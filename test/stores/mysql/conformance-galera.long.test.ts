import { startGalera } from "../../../scripts/servers/galera.ts";
import { testStore } from "../../../src/testing/index.ts";
import { mysqlSubject } from "./subject.ts";
import { runner } from "../../support/conformance-runner.ts";

testStore({ runner, ...mysqlSubject("table", { start: startGalera }) });
