// What a server says of itself, whoever asks: its INFO, and its clock. Nothing is judged here.

import { listOf, type Patience, type Sender, textOf } from "./port.ts";

export type Info = ReadonlyMap<string, string>;

export function parseInfo(text: string): Info {
  return new Map(
    [...text.matchAll(/^([a-z0-9_]+):(.*?)\r?$/gm)].map(([, name, value]) => [name ?? "", value ?? ""]),
  );
}

export interface Reading {
  readonly name: string;
  /** What the node's clock is ahead of ours, and by how much that may be wrong. */
  readonly aheadMs: number;
  readonly errorMs: number;
}

/** `nowMs`: any clock that only runs forward. */
export async function readClock(
  node: Sender & { readonly name: string },
  patience: Patience,
  nowMs: () => number,
): Promise<Reading> {
  // The first command pays for the connection.
  await node.send(["TIME"], patience);
  const sentMs = nowMs();
  const [seconds, micros] = listOf(await node.send(["TIME"], patience)).map(textOf);
  const errorMs = (nowMs() - sentMs) / 2;
  const nodeMs = Number(seconds) * 1_000 + Number(micros) / 1_000;
  return { name: node.name, aheadMs: nodeMs - sentMs - errorMs, errorMs };
}
