// The clients that `redis({ client })` and `redlock({ nodes })` accept, as structural types. They name
// the members by which holdfast recognises a client, so that an unrelated object does not compile and no
// driver is imported. Parameters are `never[]`, because holdfast supports several major versions of each
// driver.

type Method = (...args: never[]) => unknown;

/** A client of one server, made by `createClient` of node-redis (4 to 6). */
interface NodeRedisClientLike {
  readonly isOpen: boolean;
  readonly isReady: boolean;
  readonly sendCommand: Method;
  readonly duplicate: Method;
  readonly subscribe: Method;
}

/** A client made by `createCluster` of node-redis. */
interface NodeRedisClusterLike {
  readonly masters: readonly unknown[];
  readonly nodeClient: Method;
  readonly sendCommand: Method;
}

/** A client made by `createSentinel` of node-redis (5 and later). */
interface NodeRedisSentinelLike {
  readonly getSentinelNode: Method;
  readonly sendCommand: Method;
}

/** A `Redis` of ioredis (5 or 6), of one server or of sentinels. */
interface IoredisClientLike {
  readonly status: string;
  readonly options: object;
  readonly call: Method;
  readonly duplicate: Method;
}

/** A `Cluster` of ioredis. */
interface IoredisClusterLike {
  readonly isCluster: boolean;
  readonly nodes: Method;
}

/** A connected client of one server. */
export type RedisNodeClient = NodeRedisClientLike | IoredisClientLike;

/** A connected client of one server, of sentinels or of a Cluster. */
export type RedisClient = RedisNodeClient | NodeRedisClusterLike | NodeRedisSentinelLike | IoredisClusterLike;
