import { testStore } from "../../../src/testing/index.ts";
import { etcdSubject } from "./subject.ts";
import { runner } from "../../support/conformance-runner.ts";

testStore({ runner, ...etcdSubject({ nodes: 3 }) });
