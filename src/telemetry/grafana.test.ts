// grafana/: the dashboard and the alert rules name metrics and labels that exist, and leave none out.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import promClient from "prom-client";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { createLocks } from "../index.ts";
import { collectMetrics } from "../prometheus/index.ts";

const folder = join(import.meta.dirname, "..", "..", "grafana");
const dashboard = readFileSync(join(folder, "dashboard.json"), "utf8");
const alerts = readFileSync(join(folder, "alerts.yaml"), "utf8");

/** Names as Prometheus stores them, with the labels of each. */
async function existing(): Promise<ReadonlyMap<string, readonly string[]>> {
  const locks = createLocks("memory:grafana");
  const register = new promClient.Registry();
  const stop = collectMetrics(locks, { client: promClient, register });
  const metrics = register.getMetricsAsArray() as unknown as readonly {
    readonly name: string;
    readonly type: string;
    readonly labelNames: readonly string[];
  }[];
  stop();
  await locks.close();
  return new Map(
    metrics.flatMap(({ name, type, labelNames }) =>
      (type === "histogram" ? ["_bucket", "_count", "_sum"] : [""]).map(
        (suffix) => [name + suffix, suffix === "_bucket" ? [...labelNames, "le"] : labelNames] as const,
      ),
    ),
  );
}

const named = (text: string): readonly string[] => [...new Set(text.match(/\bholdfast_\w+/g))];

interface Rules {
  readonly groups: readonly {
    readonly rules: readonly { readonly alert: string; readonly expr: string }[];
  }[];
}

interface Board {
  readonly panels: readonly { readonly targets: readonly { readonly expr: string }[] }[];
}

const rules = (parse(alerts) as Rules).groups.flatMap((group) => group.rules);
const expressions = [
  ...rules.map(({ expr }) => expr),
  ...(JSON.parse(dashboard) as Board).panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
];

describe("the files in grafana/", () => {
  it("name metrics that exist, and the dashboard shows each of them", async () => {
    const known = await existing();
    for (const name of named(dashboard + alerts)) expect([...known.keys()]).toContain(name);
    const shown = named(dashboard).map((name) => name.replace(/_(bucket|count|sum)$/, ""));
    const bases = [...known.keys()].map((name) => name.replace(/_(bucket|count|sum)$/, ""));
    expect([...new Set(shown)].toSorted()).toEqual([...new Set(bases)].toSorted());
  });

  it("group and select by labels that these metrics have", async () => {
    const known = await existing();
    for (const expression of expressions) {
      const [metric = ""] = named(expression);
      const by = /by \(([^)]*)\)/.exec(expression)?.[1]?.split(", ") ?? [];
      const selected = [...expression.matchAll(/[{,](\w+)(?:=~|!=|=)/g)].map(([, label]) => label);
      for (const label of [...by, ...selected]) expect(known.get(metric), expression).toContain(label);
    }
    expect(expressions.length).toBeGreaterThan(15);
  });

  it("alert on every event that needs a person", () => {
    expect(rules.map(({ alert }) => alert).toSorted()).toEqual([
      "HoldfastClockJumped",
      "HoldfastDeadlocks",
      "HoldfastLeaseLost",
      "HoldfastRenewalsLate",
      "HoldfastStoreUnreachable",
      "HoldfastWaitsLong",
    ]);
  });
});
