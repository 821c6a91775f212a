import { testStore } from "../../../src/testing/index.ts";
import { machineClockRunner as runner } from "../../support/conformance-runner.ts";
import { memorySubject } from "./subject.ts";

testStore({ runner, store: memorySubject() });
