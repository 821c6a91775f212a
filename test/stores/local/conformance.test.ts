import { testStore } from "../../../src/testing/index.ts";
import { runner } from "../../support/conformance-runner.ts";
import { localSubject } from "./subject.ts";

testStore({ runner, ...localSubject() });
