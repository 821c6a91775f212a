// What runs, for the record.

import type { RedisNode } from "../../scripts/servers/redis-node.ts";

export async function versionOf(node: RedisNode, how: string): Promise<string> {
  return `Redis ${/redis_version:(\S+)/.exec(await node.ask("INFO", "server"))?.[1]} ${how}`;
}
