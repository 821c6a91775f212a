// The commands of the contract that change or read records, each of them atomic in the server. They run as
// scripts, or as transactions where scripts are forbidden.

import type { LockError } from "../../../core/errors.ts";
import type {
  AttemptAnswer,
  Io,
  LockInfo,
  Note,
  RenewAnswer,
  RenewItem,
  Request,
  RevokeAnswer,
  RevokeOptions,
} from "../../../core/store.ts";
import type { System } from "../../../core/system.ts";
import type { RedisKeys } from "./keys.ts";
import type { OpenRequest } from "./open-requests.ts";
import type { CallContext, RedisPort } from "../client/port.ts";

export interface Commands {
  /** Asks the server for what the first attempt needs. */
  prepare?(io: CallContext): Promise<void>;
  attempt(request: Request, open: OpenRequest, io: Io): Promise<AttemptAnswer<null>>;
  /** One answer per item. May reject because of one item; then each item has to be renewed alone. */
  renew(items: readonly RenewItem<null>[], io: Io): Promise<RenewAnswer[]>;
  /**
   * Ends an id. `used`: the last fence of each key that was used, or "" if that is unknown. `lateUntilMs`:
   * until when attempts may still arrive, or 0. Resolves with whether the id held all keys.
   */
  end(request: Request, used: readonly string[], lateUntilMs: number, io: Io): Promise<boolean>;
  owns(request: Request, io: Io): Promise<boolean>;
  note(request: Request, note: Note, io: Io): Promise<void>;
  /** One answer per key: null where it is free, an error where its record cannot be read. */
  inspect(keys: readonly string[], io: Io): Promise<(LockInfo | LockError | null)[]>;
  revoke(key: string, options: RevokeOptions, io: Io): Promise<RevokeAnswer>;
}

/** What scripts and transactions need. */
export interface CommandsEnv {
  readonly port: RedisPort;
  readonly names: RedisKeys;
  readonly system: System;
  /** The opened store that sends the commands. */
  readonly proc: string;
  /** How many replicas must acknowledge a grant or a renewal. */
  readonly replicas: number;
}

/** A lock on one key: exclusive, and nothing keeps the key after its release. */
export function isPlain({ keys, mode, limit, keepMs }: Request): boolean {
  return keys.length === 1 && mode === "exclusive" && limit === 1 && keepMs === 0;
}

/**
 * A record outlives its leases by this much, and with it the promises of those who wait: scripts/record.lua.
 */
const SPARE_MS = 20_000;
/** How long a record lives at least, in ms. */
export function lifeOf(holdMs: number): string {
  return String(Math.ceil(holdMs) + SPARE_MS);
}

/** The command in an error message: completes "Redis could not". */
export const DOING = {
  acquire: "try for the lock",
  "fast-path": "take or release the lock",
  inspect: "be asked who holds the lock",
  note: "write the note",
  owns: "be asked for the owner",
  release: "be told of the release",
  renew: "renew the lease",
  revoke: "revoke the lock",
} as const;
