import { testStore } from "../../src/testing/index.ts";
import { redisSubject } from "./redis-subject.ts";
import { runner } from "./runner.ts";

testStore({ runner, ...redisSubject("ioredis", undefined, { scripts: false }) });
