// inspect, list and revoke: what operators ask for.

import type { Io, LockInfo, RevokeAnswer, RevokeOptions } from "../../core/store.ts";
import type { Context } from "./context.ts";
import { readLock } from "./replies.ts";

export async function inspect(context: Context, key: string, io: Io): Promise<LockInfo | null> {
  const answer = await context.call("inspect", [key], [context.names.of(key).digest], io);
  return answer === null ? null : readLock(key, answer);
}

/** A page at a time. Damaged rows are left out: they must not hide the others. */
export async function* listLocks(
  context: Context,
  { prefix, limit }: { readonly prefix: string; readonly limit: number },
  io: Io,
): AsyncIterable<LockInfo> {
  let left = limit;
  let after: Buffer | null = null;
  while (left > 0) {
    context.refuseClosed();
    const values: readonly unknown[] = [context.namespace, Buffer.from(prefix), after];
    const rows = await context.connections.query(context.sql.list, values, io).catch((error: unknown) => {
      throw context.namedError(error, "list the locks", []);
    });
    for (const row of rows) {
      after = Buffer.from(row["key"] as string, "hex");
      const info = row["info"] ?? null;
      if (info === null || left === 0) continue;
      left -= 1;
      yield readLock(after.toString(), info);
    }
    if (rows.length === 0) return;
  }
}

export async function revoke(
  context: Context,
  key: string,
  { fence, reason, force }: RevokeOptions,
  io: Io,
): Promise<RevokeAnswer> {
  const { digest } = context.names.of(key);
  const values = [digest, fence === undefined ? null : String(fence), context.show(reason), force];
  return (await context.call("revoke", [key], values, io)) as RevokeAnswer;
}
