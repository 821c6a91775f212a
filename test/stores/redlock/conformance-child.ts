// How a child process of the suite gets at a redlock.

import type { Store } from "../../../src/index.ts";
import { redlock } from "../../../src/stores/redlock/index.ts";
import { fresh, PATIENT } from "./subject.ts";

export function createStore(...urls: string[]): Store {
  return fresh(redlock({ nodes: urls, driver: "ioredis", nodeTimeout: PATIENT }));
}
