// Whether several nodes are well as a whole: a Cluster that serves every slot, sentinels that could agree on a new primary.

import type { Finding } from "../../core/store.ts";
import { type Patience, type RedisNode, type RedisPort, type Reply, textOf } from "./port.ts";

/** With fewer, one that is lost takes the majority with it. */
const WELL_MANY = 3;

export async function together(
  port: RedisPort,
  nodes: readonly RedisNode[],
  patience: Patience,
): Promise<Finding[]> {
  if (port.slotOf !== undefined) return slots(nodes, patience);
  // Users that may not ask, and sentinels that are gone at this moment, are no finding of their own.
  const said = await port.quorum?.(patience).catch(() => undefined);
  return said === undefined ? [] : sentinels(said);
}

/** Whether a failover could happen, by the word of one sentinel. */
export function quorumBy(
  sentinel: { send(words: readonly string[]): Promise<Reply> },
  master: string,
): Promise<string> {
  return sentinel.send(["SENTINEL", "CKQUORUM", master]).then(textOf, (error: unknown) => {
    const { message } = error as Error;
    if (message.startsWith("NOQUORUM")) return message;
    throw error;
  });
}

/** A replica that the sentinels miss. It is not dialled: one that is gone for good would take all the time of a check. */
export function lost(name: string, flags: string): RedisNode {
  return { name, primary: false, send: () => Promise.reject(new Error(`the sentinels say ${flags}`)) };
}

/** Each primary says how it sees the Cluster; one that sees it broken is enough. */
async function slots(nodes: readonly RedisNode[], patience: Patience): Promise<Finding[]> {
  const primaries = nodes.filter(({ primary }) => primary);
  const ask = (node: RedisNode): Promise<string> =>
    node.send(["CLUSTER", "INFO"], patience).then(textOf, () => "");
  const said = await Promise.all(primaries.map(ask));
  const at = said.findIndex((text) => /^cluster_state:fail/m.test(text));
  const assigned = Math.min(
    ...said.map((text) => Number(/^cluster_slots_ok:(\d+)/m.exec(text)?.[1] ?? SLOTS)),
  );
  if (at === -1 && assigned === SLOTS) return [];
  return [
    {
      id: "cluster-slots",
      level: "danger",
      what: `${(primaries[at] ?? primaries[0])?.name}: ${SLOTS - assigned} of ${SLOTS} slots are served by nobody`,
      why: "keys in these slots cannot be locked; with cluster-require-full-coverage no key can",
      fix: "bring the nodes back or give their slots to others: redis-cli --cluster check, then fix",
    },
  ];
}

const SLOTS = 16_384;

function sentinels(said: string): Finding[] {
  const usable = Number(/(\d+) usable/.exec(said)?.[1] ?? 0);
  if (said.startsWith("NOQUORUM")) {
    return [
      {
        id: "sentinels",
        level: "danger",
        what: `the sentinels cannot agree on a failover: ${said}`,
        why: "when the primary fails nobody takes its place, and its locks cannot be had until it is back",
        fix: "bring the sentinels back; a majority of all that the primary has ever known must be reachable",
      },
    ];
  }
  if (usable >= WELL_MANY) return [];
  return [
    {
      id: "sentinels",
      level: "warning",
      what: `there are ${usable} sentinels`,
      why: "when one of them is lost together with the primary, the rest cannot agree on a new one",
      fix: "run three sentinels or more, on different machines",
    },
  ];
}
