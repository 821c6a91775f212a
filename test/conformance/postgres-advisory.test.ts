import { testStore } from "../../src/testing/index.ts";
import { advisorySubject } from "./postgres-subject.ts";
import { runner } from "./runner.ts";

testStore({ runner, ...advisorySubject() });
