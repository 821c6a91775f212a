// Finds the keys of all records with a prefix, by SCAN over every primary.

import { type CallContext, listOf, type RedisPort, type Sender, textOf } from "./client/port.ts";
import { escapeGlob, type RedisKeys } from "./commands/keys.ts";

const SCANNED_AT_ONCE = 100;

/** Keys page by page. A key that SCAN returns twice, while a table grows or a slot moves, is listed once. */
export async function* scanKeys(
  port: RedisPort,
  names: RedisKeys,
  prefix: string,
  call: CallContext,
): AsyncGenerator<string[]> {
  const seen = new Set<string>();
  const pattern = escapeGlob(port.keyPrefix) + names.pattern(prefix);
  const nodes: readonly Sender[] = (await port.nodes?.(call))?.filter(({ isPrimary }) => isPrimary) ?? [port];
  for (const node of nodes) {
    let cursor = "0";
    do {
      const command = ["SCAN", cursor, "MATCH", pattern, "COUNT", String(SCANNED_AT_ONCE)];
      const [next, found] = listOf(await node.send(command, call));
      cursor = textOf(next);
      const keys = listOf(found)
        .map((name) => names.key(textOf(name).slice(port.keyPrefix.length)))
        .filter((key) => key !== null && !seen.has(key)) as string[];
      for (const key of keys) seen.add(key);
      yield keys;
    } while (cursor !== "0");
  }
}
