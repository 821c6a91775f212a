// `doctor` against Sentinel and Cluster that are badly set or half gone (P19).

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { startCluster } from "../../scripts/servers/redis-cluster.ts";
import type { RedisNode } from "../../scripts/servers/redis-node.ts";
import { startSentinel } from "../../scripts/servers/redis-sentinel.ts";
import { type Diagnosis, diagnoseIn, on } from "./doctor-fixture.ts";
import { Sandbox } from "./fixture.ts";

let box: Sandbox;
beforeEach(() => void (box = new Sandbox()));
afterEach(() => box.close());

const diagnose = (url: string): Promise<Diagnosis> => diagnoseIn(box, url);

describe("doctor finds", () => {
  it("sentinels that cannot agree on a failover any more", async () => {
    await on(startSentinel(), async (servers) => {
      const well = await diagnose(servers.url);
      expect(well.found.filter((one) => /sentinels|unreachable|replicas/.test(one))).toEqual([]);
      await Promise.all(servers.sentinels.slice(1).map((sentinel) => sentinel.stop()));
      await servers.nodes[1]?.stop();
      await expect
        .poll(async () => (await diagnose(servers.url)).found, { timeout: 120_000, interval: 500 })
        .toEqual(expect.arrayContaining(["sentinels danger", "unreachable warning"]));
      expect((await diagnose(servers.url)).code).toBe(69);
    });
  });

  it("a Cluster with a slot that nobody serves", async () => {
    await on(startCluster({ args: ["--cluster-require-full-coverage", "no"] }), async (servers) => {
      const [node] = servers.nodes as readonly [RedisNode];
      await node.ask("CLUSTER", "DELSLOTS", "0");
      const seen = await diagnose(servers.url);
      expect(seen.found).toEqual(expect.arrayContaining(["cluster-slots danger", "replicas warning"]));
      expect(seen.findings.find(({ id }) => id === "cluster-slots")?.what).toContain("1 of 16384 slots");
      expect(seen.code).toBe(69);
      const alone = await diagnose(`redis://${node.name}`);
      expect(alone).toMatchObject({ code: 69, found: ["unsupported danger"] });
    });
  });
});
