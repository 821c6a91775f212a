// The servers that this project can start, by name. A new kind is one file beside this one and one line here.

import { mariadbProgram, startMariadb } from "./mariadb.ts";
import { mysqlProgram, startMysql } from "./mysql.ts";
import { etcdProgram, startEtcd } from "./etcd.ts";
import { galeraProgram, startGalera } from "./galera.ts";
import { newestOf, type Program } from "./packages.ts";
import { postgresProgram, readableCache, startPostgres } from "./postgres.ts";
import type { RunningServer } from "./process.ts";
import { redisProgram, startRedis } from "./redis.ts";
import { startCluster } from "./redis-cluster.ts";
import { startSentinel } from "./redis-sentinel.ts";
import { startZooKeeper, zookeeperProgram } from "./zookeeper.ts";

export interface ServerKind {
  readonly programs: readonly Program[];
  /** Where the programs are unpacked, if another user runs them. */
  readonly cache?: () => string;
  /** Only `npm run test:all` needs it. */
  readonly isLong?: boolean;
  start(): Promise<RunningServer>;
}

export const kinds: Readonly<Record<string, ServerKind>> = {
  etcd: { programs: [etcdProgram], start: () => startEtcd() },
  postgres: { programs: [postgresProgram], cache: readableCache, start: () => startPostgres() },
  mariadb: { programs: [mariadbProgram], start: () => startMariadb() },
  galera: { programs: [galeraProgram], isLong: true, start: () => startGalera() },
  mariadb11: {
    programs: [newestOf(mariadbProgram)],
    isLong: true,
    start: () => startMariadb({ own: true, newest: true }),
  },
  mysql9: { programs: [mysqlProgram], isLong: true, start: () => startMysql() },
  redis: { programs: [redisProgram], start: () => startRedis() },
  sentinel: { programs: [redisProgram], start: () => startSentinel() },
  cluster: { programs: [redisProgram], start: () => startCluster({ replicas: true }) },
  zookeeper: { programs: [zookeeperProgram], start: () => startZooKeeper() },
};
