// Renewal of many leases. Each lease has its own answer: a row that is damaged or that somebody else keeps
// locked costs only its own lease.

import type { Io, RenewAnswer, RenewItem } from "../../core/store.ts";
import { textOf } from "./client/port.ts";
import { isDamage, mysqlError } from "./errors.ts";
import { shortened } from "./acquire.ts";
import { sql } from "./sql.ts";
import { encodeKeys, type Steps, toUs } from "./steps.ts";

/** Of a call's timeout: by then the renewals that have succeeded are answered, whatever the others do. */
const ANSWER_SHARE = 0.7;
/** Each may keep a connection for long. */
const LOCKED_AT_ONCE = 2;

type Item = RenewItem<null>;

export async function renewAll(steps: Steps, items: readonly Item[], io: Io): Promise<RenewAnswer[]> {
  const answers = new Map<Item, RenewAnswer>();
  const locked = await lockedItems(steps, items, io);
  let isOver = false;
  const renew = async (item: Item): Promise<void> => {
    const answer = await renewOne(steps, item, io).catch((cause: unknown): RenewAnswer => {
      return { state: "unknown", cause: mysqlError(cause, "renew the lease", item.request.keys[0]) };
    });
    if (!isOver) answers.set(item, answer);
  };
  const queue = items.filter((item) => locked.has(item));
  const renewLocked = async (): Promise<void> => {
    for (let item = queue.shift(); item !== undefined && !isOver; item = queue.shift()) await renew(item);
  };
  const all = Promise.all(items.filter((item) => !locked.has(item)).map(renew)).then(() =>
    Promise.all(Array.from({ length: LOCKED_AT_ONCE }, renewLocked)),
  );
  await (items.length === 1 ? all : Promise.race([all, io.sleep(io.timeoutMs * ANSWER_SHARE)]));
  isOver = true;
  return items.map((item) => answers.get(item) ?? { state: "unknown" });
}

/**
 * Those of several whose rows somebody else has locked, asked without waiting. An UPDATE cannot skip them.
 */
async function lockedItems(steps: Steps, items: readonly Item[], io: Io): Promise<ReadonlySet<Item>> {
  if (items.length < 2) return new Set();
  const namesOf = ({ request }: Item): string[] => request.keys.map((key) => hex(steps.hash(key)));
  // A power of two, so that the server has to prepare few statements, whatever the number of leases.
  const names = items.flatMap(({ request }) => request.keys.map((key) => steps.hash(key)));
  while (!Number.isInteger(Math.log2(names.length))) names.push(names[0] as Uint8Array);
  const [existing, unlocked] = await Promise.all(
    (["existing_names", "unlocked_names"] as const).map(async (statement) => {
      const { rows } = await steps.byNames(statement, [], names, io);
      return new Set(rows.map((row) => hex(row["name"])));
    }),
  );
  const isLocked = (name: string): boolean => existing?.has(name) === true && unlocked?.has(name) !== true;
  return new Set(items.filter((item) => namesOf(item).some(isLocked)));
}

async function renewOne(steps: Steps, item: Item, io: Io): Promise<RenewAnswer> {
  const { request, ttlMs, lastFences, label } = item;
  const { keys, id, mode, limit, graceMs } = request;
  const lastsUs = toUs(ttlMs + graceMs);
  if (keys.length === 1 && mode === "exclusive" && limit === 1) {
    const values = [Number(lastFences[0]), shortened(label), lastsUs, steps.hash(keys[0] as string), id];
    const { met } = await steps
      .guarded(sql["renew_fast"], "is_primary", values, io)
      .catch((error: unknown) => {
        if (isDamage(error)) return { met: 0 };
        throw error;
      });
    if (met === 1) return { state: "renewed", validMs: ttlMs };
  }
  const { bytes } = encodeKeys(steps, keys, lastFences);
  const { rows } = await steps.call("renew", bytes, [id, shortened(label), lastsUs], io);
  const state = textOf(rows[0]?.["state"]);
  if (state === "r") return { state: "renewed", validMs: ttlMs };
  if (state === "l") return { state: "lost", reason: "gone" };
  return { state: "lost", reason: "revoked", detail: textOf(rows[0]?.["reason"]) };
}

function hex(value: unknown): string {
  return value instanceof Uint8Array ? Buffer.from(value).toString("hex") : "";
}
