// How far the clocks of several nodes are apart. Fences and leases follow the clock of the primary, so a new
// primary whose clock is behind keeps leases for longer and may give smaller fences.

import type { Finding } from "../../../core/store.ts";
import type { CallContext, RedisNode } from "../client/port.ts";
import { type ClockReading, readClock } from "./server-info.ts";

/** The shortest grace: a smaller difference changes nothing. */
const TOLERATED_MS = 50;

export async function findClockSkew(
  nodes: readonly RedisNode[],
  call: CallContext,
  nowMs: () => number,
): Promise<Finding[]> {
  const read = (node: RedisNode): Promise<ClockReading | null> =>
    readClock(node, call, nowMs).catch(() => null);
  const readings = (await Promise.all(nodes.map(read))).filter((one) => one !== null);
  const sorted = readings.sort((a, b) => a.aheadMs - b.aheadMs);
  const [last, first] = [sorted[0], sorted.at(-1)];
  if (last === undefined || first === undefined) return [];
  const apartMs = first.aheadMs - last.aheadMs;
  if (apartMs - first.errorMs - last.errorMs <= TOLERATED_MS) return [];
  return [
    {
      id: "clock-difference",
      level: "warning",
      what: `the clock of ${first.name} is ${Math.round(apartMs)} ms ahead of that of ${last.name}`,
      why: "after a failover leases end earlier or later by so much, and fences may fall back by so much",
      fix: "let all nodes follow the same time source (NTP)",
    },
  ];
}
