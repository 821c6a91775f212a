import { testStore } from "../../src/testing/index.ts";
import { runner } from "./runner.ts";
import { localSubject } from "./stores.ts";

testStore({ runner, ...localSubject() });
