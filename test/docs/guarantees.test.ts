import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Guarantees } from "../../src/index.ts";
import { storeModes } from "../../src/stores/registry.ts";

const page = readFileSync(join(import.meta.dirname, "..", "..", "docs", "appendix", "promises.md"), "utf8");

function row(name: string, it: Guarantees): string {
  const late = it.freeLateMs === undefined ? "" : ` + ${it.freeLateMs} ms`;
  const free = (it.freeAfterCrashMs === "lease" ? "ttl + grace" : `${it.freeAfterCrashMs} ms`) + late;
  const cells = [
    name,
    it.fence,
    it.ends,
    free,
    it.order,
    it.wakes,
    `${it.pollMs} ms`,
    `${it.claimMs} ms`,
    it.clock,
    it.scope,
  ];
  return `| ${[...cells, it.kinds.join(", ")].join(" | ")} |`;
}

test("the table of guarantees in the documentation says what the code says", () => {
  const [, table = ""] = /guarantees:begin[^\n]*\n([\s\S]*?)<!-- guarantees:end/.exec(page) ?? [];
  const rows = table.trim().split("\n").slice(2);
  expect(rows).toEqual(storeModes.map(({ title, guarantees }) => row(title, guarantees)));
});
