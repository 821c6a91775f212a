import { testStore } from "../../../src/testing/index.ts";
import { clusterSubject } from "./topology-subject.ts";
import { runner } from "../../support/conformance-runner.ts";

testStore({ runner, ...clusterSubject() });
