import { testStore } from "../../../src/testing/index.ts";
import { redisSubject } from "./subject.ts";
import { runner } from "../../support/conformance-runner.ts";

testStore({ runner, ...redisSubject(undefined, undefined, { replicas: 1 }) });
