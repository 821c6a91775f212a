// Pools of tests. An ended pool may still hear that its server was stopped before the server had read the goodbye, and a pool
// that nobody listens to makes an error of nobody's of that.

import { Pool, type PoolConfig } from "pg";

export function openPool(url: string, options: PoolConfig = {}): Pool {
  return new Pool({ connectionString: url, ...options }).on("error", () => {});
}
