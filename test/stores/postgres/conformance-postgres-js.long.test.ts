import { testStore } from "../../../src/testing/index.ts";
import { postgresSubject } from "./subject.ts";
import { runner } from "../../support/conformance-runner.ts";

testStore({ runner, ...postgresSubject("postgres.js") });
