// Which versions of ZooKeeper are known to lose nodes between servers.

import { expect, it } from "vitest";
import { losesNodes } from "./health.ts";

it.each([
  ["3.4.14", true],
  ["3.8.0", true],
  ["3.8.9", true],
  ["3.9.3", true],
  ["3.9.4", false],
  ["3.9.10", false],
  ["3.10.0", false],
  ["4.0.0", false],
])("ZooKeeper %s: %s", (version, loses) => {
  expect(losesNodes(version)).toBe(loses);
});
