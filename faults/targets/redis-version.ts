// What runs, for the record.

import type { RedisNode } from "../../scripts/servers/redis-node.ts";

export async function versionOf(node: RedisNode, how: string): Promise<string> {
  return `${versionIn(await node.ask("INFO", "server"))} ${how}`;
}

/** From the answer to INFO. Valkey also names the version of Redis that it is compatible with. */
export function versionIn(info: string): string {
  const valkey = /valkey_version:(\S+)/.exec(info)?.[1];
  return valkey === undefined ? `Redis ${/redis_version:(\S+)/.exec(info)?.[1]}` : `Valkey ${valkey}`;
}
