// `holdfast revoke KEY --reason TEXT`: takes a key away from its holder. It shows the holder and asks for the
// key again. Only the holder that it showed is revoked.

import { createInterface } from "node:readline/promises";
import { LockError, type LockInfo, type Locks } from "../surface.ts";
import { CommandError, EXIT } from "./exit-codes.ts";
import { lockJson, lockLines } from "./lock-view.ts";
import { openForReading, type StoreFlags } from "./options.ts";
import { printError, print, printJson, stderr } from "./output.ts";
import { formatDuration, formatName } from "./format.ts";

export interface RevokeFlags extends StoreFlags {
  readonly reason?: string;
  readonly fence?: bigint;
  readonly force?: true;
  readonly yes?: true;
  readonly label?: string;
}

type Outcome = "revoked" | "free" | "other-holder";

export async function revoke(key: string, flags: RevokeFlags): Promise<number> {
  const { reason, force = false } = flags;
  if (reason === undefined || reason === "")
    throw new CommandError(
      "revoke needs --reason TEXT: the holder gets it as the reason of its loss",
      EXIT.usage,
    );
  const locks = await openForReading(flags, flags.label === undefined ? {} : { label: flags.label });
  const audit = new Audit(locks);
  try {
    const seen = await locks.inspect(key);
    if (seen === null || seen.holders.length === 0) return report(key, flags, "free", seen, audit);
    if (!flags.yes) await confirm(key, seen);
    const outcome = await revokeAll(locks, key, flags.fence === undefined ? fencesOf(seen) : [flags.fence], {
      reason,
      force,
    });
    return report(key, flags, outcome, seen, audit);
  } finally {
    await locks.close();
  }
}

/** Who revoked and when, from the event `revoked`. */
class Audit {
  #at: string | null = null;
  #by: string | null = null;

  constructor(locks: Locks) {
    locks.on("revoked", ({ by }) => {
      this.#at = new Date().toISOString();
      this.#by = by;
    });
  }

  toJSON(): { readonly at: string | null; readonly by: string | null } {
    return { at: this.#at, by: this.#by };
  }
}

const fencesOf = ({ holders }: LockInfo): readonly bigint[] => holders.map(({ fence }) => fence);

/** Revokes the holders that were shown, one by one. Later holders are left alone. */
async function revokeAll(
  locks: Locks,
  key: string,
  fences: readonly bigint[],
  options: { readonly reason: string; readonly force: boolean },
): Promise<Outcome> {
  let revoked = false;
  let stale: LockError | null = null;
  for (const fence of fences) {
    try {
      revoked = (await locks.revoke(key, { ...options, fence })) || revoked;
    } catch (error) {
      if (!LockError.is(error) || error.code !== "ERR_FENCE_STALE") throw error;
      stale = error;
    }
  }
  if (revoked || stale === null) return revoked ? "revoked" : "free";
  printError(stale.message);
  return "other-holder";
}

async function confirm(key: string, seen: LockInfo): Promise<void> {
  if (!process.stdin.isTTY)
    throw new CommandError(
      "without a terminal, revoke needs --yes: it cannot ask for the key again",
      EXIT.usage,
    );
  stderr().write(`${lockLines(key, seen).join("\n")}\n`);
  const line = createInterface({ input: process.stdin, output: stderr() });
  try {
    const answer = await line.question(
      "The holder will be notified that it has lost the key. Type the key to confirm: ",
    );
    if (answer !== key) throw new CommandError("the keys differ: nothing was revoked", EXIT.usage);
  } finally {
    line.close();
  }
}

function report(
  key: string,
  flags: RevokeFlags,
  outcome: Outcome,
  seen: LockInfo | null,
  audit: Audit,
): number {
  const { reason, force = false } = flags;
  if (flags.json) printJson({ ...lockJson(key, seen), outcome, reason, force, ...audit.toJSON() });
  else if (outcome === "free") print(`${formatName(key)} is free: there is nothing to revoke\n`);
  else if (outcome === "revoked") print(`${describeRevoked(key, force, seen)}\n`);
  return outcome === "other-holder" ? EXIT.lost : 0;
}

function describeRevoked(key: string, force: boolean, seen: LockInfo | null): string {
  if (force)
    return (
      `${formatName(key)} is revoked and free now. ` +
      "Until its holder learns of it, only the fence protects the resource"
    );
  const left = Math.max(0, ...(seen?.holders ?? []).map((holder) => holder.remainingMs));
  const latest = `in ${formatDuration(left)} at the latest`;
  return `${formatName(key)} is revoked; it is free when its holder releases it, ${latest}`;
}
