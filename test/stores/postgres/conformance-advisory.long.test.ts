import { testStore } from "../../../src/testing/index.ts";
import { advisorySubject } from "./subject.ts";
import { runner } from "../../support/conformance-runner.ts";

testStore({ runner, ...advisorySubject() });
