import { testStore } from "../../../src/testing/index.ts";
import { redlockSubject } from "./subject.ts";
import { runner } from "../../support/conformance-runner.ts";

testStore({ runner, ...redlockSubject({ frozen: 2 }) });
