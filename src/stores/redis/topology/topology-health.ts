// Whether several nodes are well as a whole: a Cluster that serves every slot, sentinels that could agree on
// a new primary.

import type { Finding } from "../../../core/store.ts";
import { type CallContext, type RedisNode, type RedisPort, textOf } from "../client/port.ts";
import { SLOTS } from "./slots.ts";

/** With fewer sentinels, the loss of one takes the majority with it. */
const ENOUGH_SENTINELS = 3;

export async function findTopologyProblems(
  port: RedisPort,
  nodes: readonly RedisNode[],
  call: CallContext,
): Promise<Finding[]> {
  if (port.slotOf !== undefined) return findUnservedSlots(nodes, call);
  // A user who may not ask, and sentinels that are gone at this moment, are no findings.
  const answer = await port.quorum?.(call).catch(() => undefined);
  return answer === undefined ? [] : judgeQuorum(answer);
}

/** Each primary reports how it sees the Cluster. One that sees it broken is enough. */
async function findUnservedSlots(nodes: readonly RedisNode[], call: CallContext): Promise<Finding[]> {
  const primaries = nodes.filter(({ isPrimary }) => isPrimary);
  const ask = (node: RedisNode): Promise<string> =>
    node.send(["CLUSTER", "INFO"], call).then(textOf, () => "");
  const answers = await Promise.all(primaries.map(ask));
  const failed = answers.findIndex((text) => /^cluster_state:fail/m.test(text));
  const served = Math.min(
    ...answers.map((text) => Number(/^cluster_slots_ok:(\d+)/m.exec(text)?.[1] ?? SLOTS)),
  );
  if (failed === -1 && served === SLOTS) return [];
  const { name } = (primaries[failed] ?? primaries[0]) as RedisNode;
  return [
    {
      id: "cluster-slots",
      level: "danger",
      what: `${name}: ${SLOTS - served} of ${SLOTS} slots are served by nobody`,
      why: "keys in these slots cannot be locked; with cluster-require-full-coverage no key can",
      fix: "bring the nodes back or give their slots to others: redis-cli --cluster check, then fix",
    },
  ];
}

function judgeQuorum(answer: string): Finding[] {
  const usable = Number(/(\d+) usable/.exec(answer)?.[1] ?? 0);
  if (answer.startsWith("NOQUORUM")) {
    return [
      {
        id: "sentinels",
        level: "danger",
        what: `the sentinels cannot agree on a failover: ${answer}`,
        why: "when the primary fails nobody takes its place, and its locks cannot be had until it is back",
        fix: "bring the sentinels back; a majority of all that the primary has ever known must be reachable",
      },
    ];
  }
  if (usable >= ENOUGH_SENTINELS) return [];
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
