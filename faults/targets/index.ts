// All stores that runs can be made on, by the name that the command takes. A store joins by one file and one line.

import { etcdExclusiveTarget, etcdTarget } from "./etcd.ts";
import { localTarget } from "./local.ts";
import { advisoryTarget, postgresTarget } from "./postgres.ts";
import { mysqlRowTarget, mysqlTarget } from "./mysql.ts";
import { mysqlPairTarget } from "./mysql-pair.ts";
import { redisTarget } from "./redis.ts";
import { redlockAofTarget, redlockRdbTarget, redlockTarget } from "./redlock.ts";
import { redisClusterTarget } from "./redis-cluster.ts";
import { redisSentinelTarget } from "./redis-sentinel.ts";
import type { TargetMaker } from "./target.ts";
import { zookeeperTarget } from "./zookeeper.ts";

const targets: Readonly<Record<string, TargetMaker>> = {
  etcd: etcdTarget,
  "etcd-exclusive": etcdExclusiveTarget,
  local: localTarget,
  postgres: postgresTarget,
  "postgres-advisory": advisoryTarget,
  mysql: mysqlTarget,
  "mysql-row": mysqlRowTarget,
  "mysql-pair": mysqlPairTarget,
  redis: redisTarget,
  redlock: redlockTarget,
  "redlock-aof": redlockAofTarget,
  "redlock-rdb": redlockRdbTarget,
  "redis-cluster": redisClusterTarget,
  "redis-sentinel": redisSentinelTarget,
  zookeeper: zookeeperTarget,
};

export const targetNames: readonly string[] = Object.keys(targets);

export function targetNamed(store: string): TargetMaker {
  const make = targets[store];
  if (make !== undefined) return make;
  throw new Error(`there is no store ${store}: there are ${targetNames.join(", ")}`);
}
