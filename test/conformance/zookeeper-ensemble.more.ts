import { testStore } from "../../src/testing/index.ts";
import { runner } from "./runner.ts";
import { zookeeperSubject } from "./zookeeper-subject.ts";

testStore({ runner, ...zookeeperSubject(3) });
