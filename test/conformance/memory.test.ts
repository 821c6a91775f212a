import { testStore } from "../../src/testing/index.ts";
import { runner } from "./runner.ts";
import { memorySubject } from "./stores.ts";

testStore({ runner, store: memorySubject() });
