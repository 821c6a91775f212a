import { modelCases } from "./model-cases.ts";

modelCases();
