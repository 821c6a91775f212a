// Outages of a Redis with several nodes: a primary that is killed, and a slot that moves, each with the moment when writes
// are possible again, asked past the product.

import type { ClusterServers } from "../../../scripts/servers/redis-cluster.ts";
import { agreed, type RedisNode } from "../../../scripts/servers/redis-node.ts";
import { nodeSystem } from "../../../src/system/node.ts";
import { pause } from "./load.ts";

export interface Outage {
  readonly struckMs: number;
  /** When another node first took a write. */
  readonly writableMs: number;
}

/** `others`: one of them becomes the primary. `name`: a key that it will serve. */
export async function killPrimary(
  primary: RedisNode,
  others: readonly RedisNode[],
  name: string,
): Promise<Outage> {
  const struckMs = nodeSystem.monoMs();
  await primary.kill();
  const takes = (node: RedisNode): Promise<boolean> =>
    node.ask("SET", name, "1", "PX", "1000").then(
      (reply) => reply.startsWith("+OK"),
      () => false,
    );
  while (!(await Promise.all(others.map(takes))).some(Boolean)) await pause(5);
  return { struckMs, writableMs: nodeSystem.monoMs() };
}

/** Moves one slot as `redis-cli --cluster reshard` does, key by key, slowly enough to be met half-way. */
export async function moveSlot(
  servers: ClusterServers,
  slot: number,
  from: RedisNode,
  to: RedisNode,
  betweenMs: number,
): Promise<void> {
  const id = async (node: RedisNode): Promise<string> =>
    /\r\n(\w{40})\r\n/.exec(await node.ask("CLUSTER", "MYID"))?.[1] ?? "";
  const [fromId, toId, number] = [await id(from), await id(to), String(slot)];
  await to.ask("CLUSTER", "SETSLOT", number, "IMPORTING", fromId);
  await from.ask("CLUSTER", "SETSLOT", number, "MIGRATING", toId);
  await pause(betweenMs);
  for (;;) {
    const keys = await from.ask("CLUSTER", "GETKEYSINSLOT", number, "1");
    const found = [...keys.matchAll(/\$\d+\r\n([^\r]+)\r\n/g)].map(([, name]) => name as string);
    if (found.length === 0) break;
    await from.ask("MIGRATE", "127.0.0.1", String(to.port), "", "0", "5000", "KEYS", ...found);
    await pause(betweenMs);
  }
  for (const node of [to, from, ...servers.nodes]) {
    await node.ask("CLUSTER", "SETSLOT", number, "NODE", toId).catch(() => "");
  }
  await agreed("everybody knows the new owner", async () => (await servers.masterOf(slot)) === to);
}
