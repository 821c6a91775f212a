// The types of the store factories and of the guards. Compiled, never run.

import type { Lease, Locks, Store } from "holdfast";
import { FenceGate, fenceHeader, guardKey, guardRow, requireFence } from "holdfast/fence";
import { Channel, type ClientOptions, credentials } from "@grpc/grpc-js";
import { Cluster, Redis } from "ioredis";
import { Cluster as Cluster6, Redis as Redis6 } from "ioredis-6";
import type { Connection, Pool as MysqlPool, PoolConnection } from "mysql2";
import type { Connection as PromiseConnection, Pool as PromisePool } from "mysql2/promise";
import type { Client, Pool, PoolClient } from "pg";
import type { ReservedSql, Sql, TransactionSql } from "postgres";
import { createClient, createCluster, createSentinel } from "redis";
import { createClient as createClient4, createCluster as createCluster4 } from "redis-4";
import { createClient as createClient6, createCluster as createCluster6 } from "redis-6";
import { expectTypeOf } from "vitest";
import { etcd } from "../../src/stores/etcd/index.ts";
import { local, type LocalStore } from "../../src/stores/local/index.ts";
import { memory } from "../../src/stores/memory/index.ts";
import { mysql } from "../../src/stores/mysql/index.ts";
import { postgres } from "../../src/stores/postgres/index.ts";
import { redis } from "../../src/stores/redis/index.ts";
import { redlock } from "../../src/stores/redlock/index.ts";
import { zookeeper } from "../../src/stores/zookeeper/index.ts";

declare const lease: Lease;
declare const locks: Locks;
declare const client: object;
declare const pool: Pool;
declare const grpcOptions: ClientOptions;

export function factories(): void {
  expectTypeOf(memory()).toEqualTypeOf<Store>();
  expectTypeOf(local({ dir: "/srv/locks" })).toEqualTypeOf<LocalStore>();
  expectTypeOf<LocalStore>().toExtend<Store>();
  expectTypeOf(redis({ client: createClient(), replicas: 1, scripts: false })).toEqualTypeOf<Store>();
  expectTypeOf(redlock({ nodes: [new Redis(), "redis://h1"], maxTtl: "60s" })).toEqualTypeOf<Store>();
  expectTypeOf(postgres({ pool, mode: "advisory" })).toEqualTypeOf<Store>();
  expectTypeOf(mysql({ url: "mysql://h/db", mode: "row" })).toEqualTypeOf<Store>();
  expectTypeOf(etcd({ endpoints: ["h1:2379"], order: "exclusive", tls: true })).toEqualTypeOf<Store>();
  expectTypeOf(zookeeper({ servers: ["h1"], sessionTimeout: "6s" })).toEqualTypeOf<Store>();
}

export function clients(): void {
  redis({ client: createClient4() });
  redis({ client: createClient6() });
  redis({ client: createCluster({ rootNodes: [] }) });
  redis({ client: createCluster4({ rootNodes: [] }) });
  redis({ client: createCluster6({ rootNodes: [] }) });
  redis({ client: createSentinel({ name: "main", sentinelRootNodes: [] }) });
  redis({ client: new Redis() });
  redis({ client: new Redis6() });
  redis({ client: new Cluster([]) });
  redis({ client: new Cluster6([]) });
  redlock({ nodes: [createClient(), createClient4(), createClient6(), new Redis6()] });
  // @ts-expect-error: any object
  redis({ client });
  // @ts-expect-error: a pool of another database
  redis({ client: pool });
  // @ts-expect-error: any object
  redlock({ nodes: [client] });
  // @ts-expect-error: a node is one server
  redlock({ nodes: [createCluster({ rootNodes: [] })] });
  // @ts-expect-error: any object
  postgres({ pool: client });
  etcd({ channel: new Channel("h1:2379", credentials.createInsecure(), {}) });
  etcd({ endpoints: ["h1"], clientOptions: grpcOptions });
  etcd({ url: "etcd://h1", clientOptions: { "grpc.keepalive_time_ms": 5_000, interceptors: [] } });
  etcd({ url: "etcd://h1", credentials: async () => ({ user: "locker", password: "secret" }) });
  etcd({ url: "etcd://h1", credentials: () => ({ token: "jwt" }) });
  // @ts-expect-error: any object
  etcd({ channel: client });
  // @ts-expect-error: a pool of a database
  etcd({ channel: pool });
  // @ts-expect-error: a pool of a database
  etcd({ endpoints: ["h1"], clientOptions: pool });
  // @ts-expect-error: an option of something else
  etcd({ endpoints: ["h1"], clientOptions: { host: "h1" } });
  // @ts-expect-error: neither a password nor a token
  etcd({ endpoints: ["h1"], credentials: () => ({ user: "locker" }) });
}

export function transactions(
  pg: { readonly client: Client; readonly pooled: PoolClient },
  mysql2: { readonly connection: Connection; readonly pooled: PoolConnection; readonly pool: MysqlPool },
  promised: { readonly connection: PromiseConnection; readonly pool: PromisePool },
): void {
  locks.inTransaction(pg.client);
  locks.inTransaction(pg.pooled);
  locks.inTransaction(mysql2.connection);
  locks.inTransaction(mysql2.pooled);
  locks.inTransaction(promised.connection);
  // @ts-expect-error: a single client
  postgres({ pool: pg.client });
  // @ts-expect-error: any object
  locks.inTransaction(client);
  // @ts-expect-error: a pool
  locks.inTransaction(pool);
  // @ts-expect-error: a pool
  locks.inTransaction(mysql2.pool);
  // @ts-expect-error: a pool
  locks.inTransaction(promised.pool);
}

export function postgresJs(sql: Sql, transaction: TransactionSql, reserved: ReservedSql): void {
  postgres({ pool: sql, mode: "advisory" });
  // @ts-expect-error: a transaction
  postgres({ pool: transaction });
  // @ts-expect-error: the instance has the address
  postgres({ pool: sql, host: "h1" });
  // @ts-expect-error: any function
  postgres({ pool: () => reserved });
}

export function pools(
  mysql2: { readonly connection: Connection; readonly pool: MysqlPool },
  promised: { readonly connection: PromiseConnection; readonly pool: PromisePool },
): void {
  mysql({ pool: promised.pool, mode: "row" });
  mysql({ pool: mysql2.pool });
  mysql({ url: "mysql://h/db", password: () => Promise.resolve("token"), socketPath: "/run/mysqld.sock" });
  // @ts-expect-error: a single connection
  mysql({ pool: promised.connection });
  // @ts-expect-error: a single connection
  mysql({ pool: mysql2.connection });
  // @ts-expect-error: a pool of another database
  mysql({ pool });
  // @ts-expect-error: any object
  mysql({ pool: client });
  // @ts-expect-error: the pool has these options
  mysql({ pool: promised.pool, password: "secret" });
  // @ts-expect-error: a password is text
  mysql({ url: "mysql://h/db", password: () => 5 });
}

export function wrongOptions(): void {
  // @ts-expect-error: a path is an option
  local("/srv/locks");
  // @ts-expect-error: unknown option
  local({ path: "/srv/locks" });
  // @ts-expect-error: a client is an object
  redis({ client: "redis://h1" });
  // @ts-expect-error: unknown driver
  redis({ url: "redis://h1", driver: "other" });
  // @ts-expect-error: unknown option
  redis({ url: "redis://h1", replica: 1 });
  // @ts-expect-error: nodes are required
  redlock({});
  // @ts-expect-error: a list of nodes
  redlock({ nodes: "redis://h1" });
  // @ts-expect-error: a text without a unit
  redlock({ nodes: ["redis://h1"], maxTtl: "60" });
  // @ts-expect-error: a pool is an object
  postgres({ pool: "postgres://h1/db" });
  // @ts-expect-error: unknown mode
  postgres({ pool, mode: "row" });
  // @ts-expect-error: a URL is required
  mysql({ mode: "row" });
  // @ts-expect-error: unknown mode
  mysql({ url: "mysql://h/db", mode: "advisory" });
  // @ts-expect-error: unknown order
  etcd({ endpoints: ["h1:2379"], order: "lifo" });
  // @ts-expect-error: a list of servers
  zookeeper({ servers: "h1" });
}

export async function guards(): Promise<void> {
  await guardRow(client, { table: "orders", id: 42, fence: lease });
  await guardRow(client, { table: "orders", id: 42, fence: 5n });
  const { text, values } = guardRow.sql("postgres", { table: "orders", id: 42, fence: lease });
  expectTypeOf(text).toEqualTypeOf<string>();
  expectTypeOf(values).toEqualTypeOf<readonly unknown[]>();
  expectTypeOf(fenceHeader(lease)).toEqualTypeOf<Record<string, string>>();
  const gate = new FenceGate();
  gate.pass("a", lease);
  requireFence(gate, (_, claim) => new Response(String(claim.fence)));
  // @ts-expect-error: a fence is a lease or a bigint
  await guardRow(client, { table: "orders", id: 42, fence: 5 });
  // @ts-expect-error: a fence is required
  await guardRow(client, { table: "orders", id: 42 });
  // @ts-expect-error: unknown dialect
  guardRow.sql("sqlite", { table: "orders", id: 42, fence: 5n });
  // @ts-expect-error: neither a client of Redis nor one of etcd
  await guardKey("redis://h1", "a", lease);
  // @ts-expect-error: a fence is a lease or a bigint
  gate.pass("a", "5");
  // @ts-expect-error: the header names the key of a lease
  fenceHeader(5n);
  // @ts-expect-error: a handler answers with a Response
  requireFence(gate, () => "ok");
}
