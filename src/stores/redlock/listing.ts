// Every lock that a majority knows: the names that any node has, looked up on all of them, a page at a time.

import type { Io, LockInfo } from "../../core/store.ts";
import { globFree, type Names } from "../redis/names.ts";
import { listOf, textOf } from "../redis/port.ts";
import type { Fleet } from "./fleet.ts";
import { quorumError, reasonOf } from "./errors.ts";
import type { Node } from "./node.ts";

const LISTED_AT_ONCE = 100;

export async function* listed(
  fleet: Fleet,
  names: Names,
  options: { readonly prefix: string; readonly limit: number },
  io: Io,
  look: (keys: readonly string[]) => Promise<readonly LockInfo[]>,
): AsyncIterable<LockInfo> {
  const seen = new Set<string>();
  const failed = new Map<Node, unknown>();
  let left = options.limit;
  // A lock that a majority knows is on one of the first nodes that are no majority less one; the others need not be walked through.
  let walked = 0;
  // Those that were silent the last time are asked last: only where the others are too few.
  for (const node of fleet.nodes.toSorted((a, b) => Number(a.doubted) - Number(b.doubted))) {
    if (walked > fleet.nodes.length - fleet.majority) return;
    try {
      for await (const keys of pages(node, names, options.prefix, io)) {
        const fresh = keys.filter((key) => !seen.has(key));
        for (const key of fresh) seen.add(key);
        for (const info of fresh.length === 0 ? [] : await look(fresh)) {
          if (left <= 0) return;
          left -= 1;
          yield info;
        }
      }
      walked += 1;
    } catch (error) {
      failed.set(node, error);
    }
  }
  if (walked > fleet.nodes.length - fleet.majority) return;
  const reasons = fleet.nodes.map((node) => ({
    node: node.name,
    reason: failed.has(node) ? `failed: ${reasonOf(failed.get(node))}` : "answered",
  }));
  throw quorumError("list", undefined, reasons, fleet.majority);
}

async function* pages(node: Node, names: Names, prefix: string, io: Io): AsyncIterable<string[]> {
  const own = node.port?.keyPrefix ?? "";
  const pattern = globFree(own) + names.pattern(prefix);
  let cursor = "0";
  do {
    const words = ["SCAN", cursor, "MATCH", pattern, "COUNT", String(LISTED_AT_ONCE)];
    const [next, found] = listOf(await node.send(words, io));
    cursor = textOf(next);
    yield listOf(found)
      .map((name) => names.key(textOf(name).slice(own.length)))
      .filter((key) => key !== null);
  } while (cursor !== "0");
}
