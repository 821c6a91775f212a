// The embedded statements are those of the .sql files: whoever changes one must build, or people would run the old one.

import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { generatedSql, sqlModule, sqlStores } from "./sql.mjs";

it.each(sqlStores())(
  "the module of %s is what its .sql files say: run `npm run build` after a change",
  (store) => {
    expect(readFileSync(sqlModule(store), "utf8")).toBe(generatedSql(store));
  },
);
