// Renews many leases in one call. A row that is damaged or that stays locked costs only its own lease.

import type { Io, RenewAnswer, RenewItem } from "../../core/store.ts";
import { damagedRow } from "../shared/record-validation.ts";
import type { Context } from "./context.ts";
import { isDataError } from "./errors.ts";

/** Of a call's timeout: until then leases whose rows are locked are tried again. */
const RETRY_SHARE = 0.7;
const PAUSE_MS = 20;
const NODE = "PostgreSQL";

export async function renewAll(
  context: Context,
  items: readonly RenewItem<null>[],
  io: Io,
): Promise<readonly RenewAnswer[]> {
  const answers = new Map<RenewItem<null>, RenewAnswer>();
  const untilMs = context.system.monoMs() + io.timeoutMs * RETRY_SHARE;
  let left = items;
  while (left.length > 0) {
    const given = await renewSome(context, left, io);
    left.forEach((item, at) => answers.set(item, given[at] ?? { state: "unknown" }));
    left = left.filter((_item, at) => given[at] === null);
    if (left.length === 0 || io.signal.aborted || context.system.monoMs() >= untilMs) break;
    await io.sleep(PAUSE_MS);
  }
  return items.map((item) => answers.get(item) ?? { state: "unknown" });
}

/** null where a row was locked. */
async function renewSome(
  context: Context,
  items: readonly RenewItem<null>[],
  io: Io,
): Promise<readonly (RenewAnswer | null)[]> {
  try {
    return await send(context, items, io);
  } catch (error) {
    const cause = (error as Error).cause;
    if (!isDataError(cause)) throw error;
    if (items.length === 1) return [{ state: "unknown", cause: error }];
    // One of them has a value that the server cannot take.
    const each: (RenewAnswer | null)[] = [];
    for (const item of items) each.push(...(await renewSome(context, [item], io)));
    return each;
  }
}

async function send(
  context: Context,
  items: readonly RenewItem<null>[],
  io: Io,
): Promise<readonly (RenewAnswer | null)[]> {
  const keys = items.flatMap(({ request }) => request.keys);
  const values = [
    keys.map((key) => context.names.of(key).digest),
    items.flatMap(({ request }, at) => request.keys.map(() => at + 1)),
    items.flatMap(({ request, lastFences }) => request.keys.map((_key, at) => String(lastFences[at] ?? 0n))),
    items.map(({ request }) => request.id),
    items.map(({ request, ttlMs }) => BigInt(Math.ceil((ttlMs + request.graceMs) * 1_000)).toString()),
    items.map(({ label }) => context.show(label)),
  ];
  const answer = (await context.call("renew", keys, values, io)) ?? "[]";
  const words = JSON.parse(answer) as string[];
  const clocks = [{ node: NODE, serverMs: Number(words.at(-1)) }];
  return items.map((item, at) => {
    const said = answerOf(item, words[at] as string);
    return said === null ? null : { ...said, clocks };
  });
}

function answerOf({ request, ttlMs }: RenewItem<null>, word: string): RenewAnswer | null {
  if (word === "r") return { state: "renewed", validMs: ttlMs };
  if (word === "g") return { state: "lost", reason: "gone" };
  if (word === "l") return null;
  if (word === "d") return { state: "unknown", cause: damagedRow(request.keys[0] as string) };
  return { state: "lost", reason: "revoked", detail: word.slice(2) };
}
