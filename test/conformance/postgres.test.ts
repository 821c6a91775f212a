import { testStore } from "../../src/testing/index.ts";
import { postgresSubject } from "./postgres-subject.ts";
import { runner } from "./runner.ts";

testStore({ runner, ...postgresSubject() });
