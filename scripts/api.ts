// `npm run api`: writes api/holdfast.api.txt, the snapshot of the public API.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { apiReport } from "./api-report.ts";

writeFileSync(join(import.meta.dirname, "..", "api", "holdfast.api.txt"), apiReport());
console.log("written: api/holdfast.api.txt");
