import { testStore } from "../../src/testing/index.ts";
import { redlockSubject } from "./redlock-subject.ts";
import { runner } from "./runner.ts";

testStore({ runner, ...redlockSubject({ mixed: true }) });
