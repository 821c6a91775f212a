// What `check()` reads from the words of a Redis: versions by its INFO, sentinels by their CKQUORUM.

import { describe, expect, it } from "vitest";
import { oldScripts } from "./health.ts";
import { parseInfo } from "./topology/server-info.ts";
import type { RedisPort } from "./client/port.ts";
import { findClockSkew } from "../redlock/health.ts";
import { findTopologyProblems } from "./topology/topology-health.ts";

const redis = (version: string): string =>
  `# Server\r\nredis_version:${version}\r\nredis_git_sha1:00000000\r\nredis_git_dirty:0\r\nredis_mode:standalone\r\nos:Linux 6.1.0-28-amd64 x86_64\r\n`;
const valkey = (version: string): string =>
  `# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:${version}\r\nvalkey_release_stage:ga\r\nserver_mode:standalone\r\n`;

describe("a version", () => {
  const old: readonly (readonly [name: string, version: string, info: string])[] = [
    ...["6.2.6", "6.2.19", "7.0.15", "7.2.10", "7.4.5", "8.0.3", "8.2.1"].map(
      (version) => ["Redis", version, redis(version)] as const,
    ),
    ...["7.2.8", "8.0.5", "8.1.3"].map((version) => ["Valkey", version, valkey(version)] as const),
  ];

  it.each(old)("of %s with ways out of the scripts' sandbox is a remark: %s", (name, version, info) => {
    expect(oldScripts(parseInfo(info))).toMatchObject([
      { id: "old-redis", level: "info", what: `this is ${name} ${version}` },
    ]);
  });

  it("without them is none, nor is one that is not told", () => {
    const mended = ["6.2.20", "6.2.21", "7.2.11", "7.4.6", "8.0.4", "8.2.2", "8.4.0", "9.0.0"].map(redis);
    const others = ["7.2.11", "8.0.6", "8.1.4", "9.0.0"].map(valkey);
    for (const info of [...mended, ...others, "# Server\r\n"])
      expect(oldScripts(parseInfo(info)), info).toEqual([]);
  });
});

describe("sentinels", () => {
  const port = (said: () => Promise<string>): RedisPort => ({ quorum: said }) as unknown as RedisPort;
  const call = { signal: new AbortController().signal };
  const found = (said: () => Promise<string>) => findTopologyProblems(port(said), [], call);

  it("that are too few to lose one are a warning, and without a majority a danger", async () => {
    const two = "OK 2 usable Sentinels. Quorum and failover authorization can be reached";
    expect(await found(() => Promise.resolve(two))).toMatchObject([
      { id: "sentinels", level: "warning", what: "there are 2 sentinels" },
    ]);
    const none =
      "NOQUORUM 1 usable Sentinels. Not enough available Sentinels to reach the majority and authorize a failover";
    expect(await found(() => Promise.resolve(none))).toMatchObject([{ id: "sentinels", level: "danger" }]);
    expect(await found(() => Promise.resolve(two.replace("2", "3")))).toEqual([]);
  });

  it("that may not be asked are no finding", async () => {
    expect(await found(() => Promise.reject(new Error("NOPERM")))).toEqual([]);
  });
});

describe("clocks of the nodes of a redlock", () => {
  const clocks = (aheadMs: readonly number[], errorMs: number): string[] =>
    findClockSkew(aheadMs.map((ahead, at) => ({ name: `n${at}`, aheadMs: ahead, errorMs }))).map(
      ({ what }) => what,
    );

  it("are compared with the middle one, and a slow network is not blamed on them", () => {
    expect(clocks([5_000, 5_010, 5_205], 1)).toEqual(["the clock of n2 is 195 ms ahead of the others'"]);
    expect(clocks([5_000, 4_000, 5_003], 1)).toEqual(["the clock of n1 is 1000 ms behind the others'"]);
    expect(clocks([5_000, 5_010, 5_205], 60)).toEqual([]);
    expect(clocks([], 1)).toEqual([]);
  });
});
