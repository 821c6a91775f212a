import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Guarantees } from "../../src/index.ts";
import { etcdExclusiveGuarantees, etcdGuarantees } from "../../src/stores/etcd/index.ts";
import { localGuarantees } from "../../src/stores/local/index.ts";
import { memoryGuarantees } from "../../src/stores/memory/guarantees.ts";
import { mysqlGuarantees, mysqlRowGuarantees } from "../../src/stores/mysql/index.ts";
import { advisoryGuarantees, postgresGuarantees } from "../../src/stores/postgres/index.ts";
import {
  redisClusterGuarantees,
  redisGuarantees,
  redisSentinelGuarantees,
} from "../../src/stores/redis/index.ts";
import { redlockGuarantees } from "../../src/stores/redlock/index.ts";
import { zookeeperGuarantees } from "../../src/stores/zookeeper/index.ts";

const page = readFileSync(join(import.meta.dirname, "..", "..", "docs", "promises.md"), "utf8");

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
  expect(rows).toEqual([
    row("etcd", etcdGuarantees),
    row("etcd, `order=exclusive`", etcdExclusiveGuarantees),
    row("local", localGuarantees),
    row("memory", memoryGuarantees),
    row("mysql", mysqlGuarantees),
    row("mysql, row mode", mysqlRowGuarantees),
    row("postgres", postgresGuarantees),
    row("postgres, advisory", advisoryGuarantees),
    row("redis", redisGuarantees),
    row("redis Cluster", redisClusterGuarantees),
    row("redis with sentinels", redisSentinelGuarantees),
    row("redlock", redlockGuarantees),
    row("zookeeper", zookeeperGuarantees()),
  ]);
});
