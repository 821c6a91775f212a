import { testStore } from "../../src/testing/index.ts";
import { mysqlSubject } from "./mysql-subject.ts";
import { runner } from "./runner.ts";

testStore({ runner, ...mysqlSubject("row") });
