import { testStore } from "../../src/testing/index.ts";
import { etcdSubject } from "./etcd-subject.ts";
import { runner } from "./runner.ts";

testStore({ runner, ...etcdSubject({ order: "exclusive" }) });
