import { testStore } from "../../src/testing/index.ts";
import { clusterSubject } from "./redis-nodes-subject.ts";
import { runner } from "./runner.ts";

testStore({ runner, ...clusterSubject() });
