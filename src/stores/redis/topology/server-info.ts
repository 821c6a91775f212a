// What a server reports about itself: its INFO and its clock. Nothing is judged here.

import { type CallContext, listOf, type Sender, textOf } from "../client/port.ts";

export type Info = ReadonlyMap<string, string>;

export function parseInfo(text: string): Info {
  return new Map(
    [...text.matchAll(/^([a-z0-9_]+):(.*?)\r?$/gm)].map(([, name, value]) => [name ?? "", value ?? ""]),
  );
}

export interface ClockReading {
  readonly name: string;
  /** How far the node's clock is ahead of ours, and by how much that may be wrong. */
  readonly aheadMs: number;
  readonly errorMs: number;
}

/** `nowMs`: any monotonic clock. */
export async function readClock(
  node: Sender & { readonly name: string },
  call: CallContext,
  nowMs: () => number,
): Promise<ClockReading> {
  // The first command may have to connect.
  await node.send(["TIME"], call);
  const sentMs = nowMs();
  const [seconds, micros] = listOf(await node.send(["TIME"], call)).map(textOf);
  const errorMs = (nowMs() - sentMs) / 2;
  const nodeMs = Number(seconds) * 1_000 + Number(micros) / 1_000;
  return { name: node.name, aheadMs: nodeMs - sentMs - errorMs, errorMs };
}
