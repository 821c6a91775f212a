import { testStore } from "../../../src/testing/index.ts";
import { machineClockRunner as runner } from "../../support/conformance-runner.ts";
import { localSubject } from "./subject.ts";

testStore({ runner, ...localSubject() });
