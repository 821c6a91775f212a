// An operator takes a key away: a mark in the holder's record, or by force the record itself, and a note to the holder's
// process. The note hangs on the holder's own lease, so it is gone with its process at the latest.

import type { RevokeAnswer, RevokeOptions } from "../../core/store.ts";
import { EQUAL, type LooseCompare, type LooseOp, MODIFICATION } from "./messages.ts";
import type { Names } from "./names.ts";
import type { EtcdPort, Patience } from "./port.ts";
import type { Row } from "./record.ts";
import { hasFence, type Sight } from "./sight.ts";

/** A holder may write its record in the moment between looking and revoking. */
const TRIES = 5;

export async function revoke(
  { port, names, sight }: { readonly port: EtcdPort; readonly names: Names; readonly sight: Sight },
  key: string,
  options: RevokeOptions,
  io: Patience,
): Promise<RevokeAnswer> {
  for (let tries = 0; tries < TRIES; tries += 1) {
    const rows = await sight.rows(key, io);
    const { holders, kept } = await sight.arrange(key, rows, io);
    const all = [...holders, ...kept];
    if (all.length === 0) return "free";
    const { fence } = options;
    const meant = all.filter((row) => fence === undefined || hasFence(row, fence));
    if (meant.length === 0) return "other-fence";
    const shadows = rows.filter((row) => row.kept && meant.some((one) => one.id === row.id));
    const { succeeded } = await port.txn(
      {
        compare: meant.map(asSeen),
        success: [
          ...meant.filter((row) => !row.kept).flatMap((row) => takeAway(row, options, names)),
          ...shadows.map(({ name }) => ({ delete: { key: name } })),
        ],
      },
      io,
    );
    if (succeeded) return "revoked";
  }
  throw new Error("the record of its holder is being written again and again");
}

function asSeen({ name, modRevision }: Row): LooseCompare {
  return { key: name, target: MODIFICATION, result: EQUAL, modRevision };
}

function takeAway(row: Row, { reason, force }: RevokeOptions, names: Names): LooseOp[] {
  const { name, lease, words, id } = row;
  const note = { put: { key: names.inbox(words.proc).key + id, value: reason, lease } };
  if (force) return [{ delete: { key: name } }, note];
  return [{ put: { key: name, value: JSON.stringify({ ...words, revoked: reason }), lease } }, note];
}
