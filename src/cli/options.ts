// Options that several commands share, and their parsers. The library checks the values themselves, such as
// a ttl that is too short.

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
import { printError } from "./output.ts";

const DEFAULT_STORE = "local:";
/** As in LocksOptions. */
export const DEFAULT_NAMESPACE = "holdfast";
const MAX_EXIT_CODE = 255;

/**
 * For commands that only read: they must work on a store whose owner has accepted these settings. Without
 * fresh-nodes, which would let nodes vote during their quarantine. Without old-etcd, which rejects nothing
 * and only hides a finding.
 */
const ALLOWED_FOR_READING: readonly AllowName[] = ["eviction", "few-nodes", "pooler"];

export interface StoreFlags {
  readonly store?: string;
  readonly namespace?: string;
  readonly json?: true;
  /** Of `run`. */
  readonly quiet?: true;
}

export function addStoreOptions(command: Command): Command {
  return command
    .addOption(new Option("--store <url>", `URL of the store (default ${DEFAULT_STORE})`))
    .option("--namespace <text>", "namespace of the locks (default holdfast)")
    .option("--json", "print JSON");
}

export interface OpenedLocks {
  readonly locks: Locks;
  /** A descriptor: a process that inherits it keeps the keys taken. Null on stores without one. */
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
    `${flags.store === "" ? "--store" : "HOLDFAST_STORE"} is empty. ` +
      "Is a variable unset that should hold the URL of the store? " +
      `For locks of this machine alone, write ${DEFAULT_STORE}`,
  );
}

/** For commands that acquire nothing. */
export async function openForReading(flags: StoreFlags, options: LocksOptions = {}): Promise<Locks> {
  return (await openLocks(flags, { allow: ALLOWED_FOR_READING, ...options })).locks;
}

export async function openLocks(flags: StoreFlags, options: LocksOptions): Promise<OpenedLocks> {
  const url = storeUrl(flags);
  if (flags.store === undefined && flags.quiet !== true) await warnOfDefaultStore();
  const all = flags.namespace === undefined ? options : { ...options, namespace: flags.namespace };
  const { isLocal, store } = await loadStore(url);
  return { locks: createLocksFor(store, all), lifeline: () => (isLocal ? store.lifeline() : null) };
}

async function warnOfDefaultStore(): Promise<void> {
  const { defaultStoreWarning } = await import("./default-store.ts");
  const { thisMachine } = await import("../stores/local/machine.ts");
  const warning = defaultStoreWarning(thisMachine(), process.geteuid?.() ?? null);
  if (warning !== null) printError(warning);
}

/**
 * A duration with its unit, in ms.
 * @throws InvalidArgumentError like the other parsers; its message completes "--option must be".
 */
export function readDuration(text: string): number {
  try {
    return duration(text);
  } catch {
    throw new InvalidArgumentError("a duration with a unit, such as 250ms, 30s, 5m or 1h");
  }
}

/** The same, or plain seconds as flock(1) takes them. */
export function readSeconds(text: string): number {
  if (/^\d{1,9}(\.\d{1,3})?$/.test(text)) return Math.round(Number(text) * 1_000);
  try {
    return duration(text);
  } catch {
    throw new InvalidArgumentError("a number of seconds, or a duration such as 250ms, 30s, 5m or 1h");
  }
}

export function readCount(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("a whole number of at least 1");
}

export function readExitCode(text: string): number {
  if (/^\d{1,3}$/.test(text) && Number(text) <= MAX_EXIT_CODE) return Number(text);
  throw new InvalidArgumentError(`a whole number from 0 to ${MAX_EXIT_CODE}`);
}

export function readFd(text: string): number {
  if (/^[1-9]\d{0,3}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("the number of an open descriptor, such as 3 with 3>report.json");
}

export function readFence(text: string): bigint {
  if (/^\d{1,19}$/.test(text)) return BigInt(text);
  throw new InvalidArgumentError("a fence as ls and inspect show it, a whole number");
}

/** For options that may be repeated, or have several values with commas. */
export function collect(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, ...text.split(",")];
}
