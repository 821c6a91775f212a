import { testStore } from "../../src/testing/index.ts";
import { sentinelSubject } from "./redis-nodes-subject.ts";
import { runner } from "./runner.ts";

testStore({ runner, ...sentinelSubject() });
