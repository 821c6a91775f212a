import { expect, it } from "vitest";
import { requireNode } from "./node-version.ts";

it.each(["0.10.48", "18.20.8", "20.18.3"])("refuses Node %s and says what it needs (P17)", (version) => {
  expect(() => requireNode(version)).toThrow(
    `holdfast needs Node 20.19 or later, got ${version}: install a newer Node`,
  );
});

it.each(["20.19.0", "22.12.0", "26.10.0", undefined])("accepts Node %s", (version) => {
  expect(() => requireNode(version)).not.toThrow();
});
