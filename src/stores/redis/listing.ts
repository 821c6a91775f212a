// The names of all records with a prefix, found by walking over the keys of every primary.

import { globFree, type Names } from "./names.ts";
import { listOf, type Patience, type RedisPort, type Sender, textOf } from "./port.ts";

const LISTED_AT_ONCE = 100;

/** Keys page by page. One that is named twice, as happens while a table grows or a slot moves, is given once. */
export async function* keysWith(
  port: RedisPort,
  names: Names,
  prefix: string,
  patience: Patience,
): AsyncGenerator<string[]> {
  const seen = new Set<string>();
  const pattern = globFree(port.keyPrefix) + names.pattern(prefix);
  const nodes: readonly Sender[] = (await port.nodes?.(patience))?.filter(({ primary }) => primary) ?? [port];
  for (const node of nodes) {
    let cursor = "0";
    do {
      const words = ["SCAN", cursor, "MATCH", pattern, "COUNT", String(LISTED_AT_ONCE)];
      const [next, found] = listOf(await node.send(words, patience));
      cursor = textOf(next);
      const keys = listOf(found)
        .map((name) => names.key(textOf(name).slice(port.keyPrefix.length)))
        .filter((key) => key !== null && !seen.has(key)) as string[];
      for (const key of keys) seen.add(key);
      yield keys;
    } while (cursor !== "0");
  }
}
