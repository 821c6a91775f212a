import { testStore } from "../../../src/testing/index.ts";
import { runner } from "../../support/conformance-runner.ts";
import { zookeeperSubject } from "./subject.ts";

testStore({ runner, ...zookeeperSubject(1) });
