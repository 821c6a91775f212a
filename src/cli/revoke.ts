// `holdfast revoke KEY --reason TEXT`: an operator takes a key away. Shows who has it first and asks for
// the key once more; what was shown is what is revoked: if somebody else has the key by then, nothing
// happens.

import { createInterface } from "node:readline/promises";
import { LockError, type LockInfo, type Locks } from "../surface.ts";
import { CommandError, EXIT } from "./exit-codes.ts";
import { lockJson, lockLines } from "./lock-view.ts";
import { openToLook, type StoreFlags } from "./options.ts";
import { complain, print, printJson, stderr } from "./output.ts";
import { name, time } from "./words.ts";

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
    throw new CommandError("revoke needs --reason TEXT: the holder is told why", EXIT.usage);
  const locks = await openToLook(flags, flags.label === undefined ? {} : { label: flags.label });
  const audit = new Audit(locks);
  try {
    const seen = await locks.inspect(key);
    if (seen === null || seen.holders.length === 0) return told(key, flags, "free", seen, audit);
    if (!flags.yes) await ask(key, seen);
    const outcome = await revokeAll(locks, key, flags.fence === undefined ? fencesOf(seen) : [flags.fence], {
      reason,
      force,
    });
    return told(key, flags, outcome, seen, audit);
  } finally {
    await locks.close();
  }
}

/** Who revoked and when, as the event says it. */
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

/** Those that were shown, one by one: whoever came since is left alone. */
async function revokeAll(
  locks: Locks,
  key: string,
  fences: readonly bigint[],
  wish: { readonly reason: string; readonly force: boolean },
): Promise<Outcome> {
  let revoked = false;
  let stale: LockError | null = null;
  for (const fence of fences) {
    try {
      revoked = (await locks.revoke(key, { ...wish, fence })) || revoked;
    } catch (error) {
      if (!LockError.is(error) || error.code !== "ERR_FENCE_STALE") throw error;
      stale = error;
    }
  }
  if (revoked || stale === null) return revoked ? "revoked" : "free";
  complain(stale.message);
  return "other-holder";
}

async function ask(key: string, seen: LockInfo): Promise<void> {
  if (!process.stdin.isTTY)
    throw new CommandError(
      "revoke asks for the key once more at a terminal; elsewhere say --yes",
      EXIT.usage,
    );
  stderr().write(`${lockLines(key, seen).join("\n")}\n`);
  const line = createInterface({ input: process.stdin, output: stderr() });
  try {
    const answer = await line.question(
      "The holder is told that it has lost the key. Type the key to go on: ",
    );
    if (answer !== key) throw new CommandError("that is another key: nothing was revoked", EXIT.usage);
  } finally {
    line.close();
  }
}

function told(
  key: string,
  flags: RevokeFlags,
  outcome: Outcome,
  seen: LockInfo | null,
  audit: Audit,
): number {
  const { reason, force = false } = flags;
  if (flags.json) printJson({ ...lockJson(key, seen), outcome, reason, force, ...audit.toJSON() });
  else if (outcome === "free") print(`${name(key)} is free: there is nothing to revoke\n`);
  else if (outcome === "revoked") print(`${words(key, force, seen)}\n`);
  return outcome === "other-holder" ? EXIT.lost : 0;
}

function words(key: string, force: boolean, seen: LockInfo | null): string {
  if (force)
    return `${name(key)} is revoked and free at once; a holder that has not heard of it yet is kept out by its fence alone`;
  const left = Math.max(0, ...(seen?.holders ?? []).map((holder) => holder.remainingMs));
  return `${name(key)} is revoked; it is free when its holder has let go, in ${time(left)} at the latest`;
}
