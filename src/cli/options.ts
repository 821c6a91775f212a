// Options that several commands share, and how their text becomes values. What the library itself checks (a
// ttl that is too short, a limit beside --shared) is left to the library.

import { type Command, InvalidArgumentError, Option } from "commander";
import { createLocksFor } from "../create-locks-for.ts";
import {
  type AllowName,
  duration,
  InvalidArgumentError as LockArgumentError,
  type Locks,
  type LocksOptions,
} from "../surface.ts";
import { loadStore } from "./load-store.ts";
import { complain } from "./output.ts";

const DEFAULT_STORE = "local:";
/** As in LocksOptions. */
export const DEFAULT_NAMESPACE = "holdfast";
const MAX_EXIT_CODE = 255;

/**
 * For commands that look and do not lock: what the owner of the locks may have accepted is no reason to be
 * kept from seeing them. Not fresh-nodes: that would let nodes vote that have to sit out. Not old-etcd:
 * nothing is refused for it, and accepting it only hides it.
 */
const LOOKING: readonly AllowName[] = ["eviction", "few-nodes", "pooler"];

export interface StoreFlags {
  readonly store?: string;
  readonly namespace?: string;
  readonly json?: true;
  /** Of `run`. */
  readonly quiet?: true;
}

export function addStoreOptions(command: Command): Command {
  return command
    .addOption(new Option("--store <url>", `where the locks live (default ${DEFAULT_STORE})`))
    .option("--namespace <text>", "the namespace that the locks were made with (default holdfast)")
    .option("--json", "print JSON instead of words");
}

export interface OpenedLocks {
  readonly locks: Locks;
  /** A descriptor whose inheritors keep this process's keys taken; null where the store has no such thing. */
  lifeline(): number | null;
}

/**
 * @throws InvalidArgumentError for an empty URL: an unset variable must not become a lock of this machine
 * alone.
 */
export function storeUrl(flags: StoreFlags): string {
  const { HOLDFAST_STORE: variable } = process.env;
  const url = flags.store ?? variable;
  if (url !== "") return url ?? DEFAULT_STORE;
  throw new LockArgumentError(
    `${flags.store === "" ? "--store" : "HOLDFAST_STORE"} is empty. Is a variable unset that should hold the ` +
      `URL of the store? For locks of this machine alone, say ${DEFAULT_STORE}`,
  );
}

/** To look at locks, not to take any. */
export async function openToLook(flags: StoreFlags, options: LocksOptions = {}): Promise<Locks> {
  return (await openLocks(flags, { allow: LOOKING, ...options })).locks;
}

export async function openLocks(flags: StoreFlags, more: LocksOptions): Promise<OpenedLocks> {
  const url = storeUrl(flags);
  if (flags.store === undefined && flags.quiet !== true) await warnOfDefaultStore();
  const options = flags.namespace === undefined ? more : { ...more, namespace: flags.namespace };
  const { isLocal, store } = await loadStore(url);
  return { locks: createLocksFor(store, options), lifeline: () => (isLocal ? store.lifeline() : null) };
}

async function warnOfDefaultStore(): Promise<void> {
  const { defaultStoreWarning } = await import("./default-store.ts");
  const { thisMachine } = await import("../stores/local/machine.ts");
  const warning = defaultStoreWarning(thisMachine(), process.geteuid?.() ?? null);
  if (warning !== null) complain(warning);
}

/** A duration with its unit, in ms. */
export function readDuration(text: string): number {
  try {
    return duration(text);
  } catch {
    throw new InvalidArgumentError("A duration needs a unit: 250ms, 30s, 5m or 1h.");
  }
}

/** The same, or plain seconds as flock(1) takes them. */
export function readSeconds(text: string): number {
  if (/^\d{1,9}(\.\d{1,3})?$/.test(text)) return Math.round(Number(text) * 1_000);
  try {
    return duration(text);
  } catch {
    throw new InvalidArgumentError("It is a number of seconds, or a duration: 250ms, 30s, 5m or 1h.");
  }
}

export function readCount(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("It is a whole number from 1.");
}

export function readExitCode(text: string): number {
  if (/^\d{1,3}$/.test(text) && Number(text) <= MAX_EXIT_CODE) return Number(text);
  throw new InvalidArgumentError(`An exit code is a whole number from 0 to ${MAX_EXIT_CODE}.`);
}

export function readFd(text: string): number {
  if (/^[1-9]\d{0,3}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("It is the number of an open descriptor from 1, as in 3>report.json.");
}

export function readFence(text: string): bigint {
  if (/^\d{1,19}$/.test(text)) return BigInt(text);
  throw new InvalidArgumentError("A fence is a whole number, as ls and inspect show it.");
}

/** For options that may be given more than once, or with commas. */
export function collect(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, ...text.split(",")];
}
