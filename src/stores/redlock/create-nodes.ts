// Makes the nodes of the store from clients and URLs.

import type { StoreEnv } from "../../core/store.ts";
import { connectToNode, type Driver, portOf } from "../redis/client/connect.ts";
import { rejectFew } from "./health.ts";
import { Node } from "./node.ts";

export function createNodes(
  given: readonly (string | object)[],
  driver: Driver | undefined,
  { allow, system }: StoreEnv,
): Node[] {
  rejectFew(given.length, allow);
  return given.map((one, at) => {
    const connect = (): ReturnType<typeof connectToNode> | ReturnType<typeof portOf> =>
      typeof one === "string" ? connectToNode(one, { driver }, system) : portOf(one, system);
    return new Node(nameOf(one, at), connect, system);
  });
}

/** Never the whole URL: it may hold a password. */
function nameOf(node: string | object, at: number): string {
  const address = typeof node === "string" ? ` (${new URL(node).host})` : "";
  return `node ${at + 1}${address}`;
}
