// What to do about a Redis that may evict locks. Managed services do not allow CONFIG SET, so the text names
// the setting of each.

/** The same in errors and in findings of `doctor`. */
export const EVICTION_FIX: string =
  "set maxmemory-policy to noeviction: by CONFIG SET on a server of your own, in the parameter group on " +
  "ElastiCache, by --update-redis-config on Memorystore, in the advanced settings on Azure " +
  "(see docs/stores/managed-redis.md). " +
  'Or use a Redis of its own for locks, or accept it with allow: ["eviction"]';
