// The steps of the contract that change or read records, each of them atomic in the server. There are two ways to make
// them: by script, and by transaction where scripts are forbidden.

import type { LockError } from "../../core/errors.ts";
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
} from "../../core/store.ts";
import type { Names } from "./names.ts";
import type { RedisPort } from "./port.ts";

export interface Steps {
  /** `turn` and `open` as in turns.ts. */
  attempt(
    request: Request,
    turn: number,
    open: () => readonly number[],
    io: Io,
  ): Promise<AttemptAnswer<null>>;
  /** One answer per item. May also reject because of one item; then each has to be renewed alone. */
  renew(items: readonly RenewItem<null>[], io: Io): Promise<RenewAnswer[]>;
  /** Ends an id. `used`: the last fence of each key that was used, or "" where nobody can say. Gives whether it held all. */
  end(
    request: Request,
    turn: number,
    used: readonly string[],
    open: readonly number[],
    io: Io,
  ): Promise<boolean>;
  /** Frees what is remembered of a request that nobody will end. */
  forget?(request: Request): void;
  owns(request: Request, io: Io): Promise<boolean>;
  note(request: Request, note: Note, io: Io): Promise<void>;
  /** One answer per key: null where it is free, an error where its record cannot be read. */
  look(keys: readonly string[], io: Io): Promise<(LockInfo | LockError | null)[]>;
  revoke(key: string, options: RevokeOptions, io: Io): Promise<RevokeAnswer>;
}

/** What both ways need. */
export interface StepsEnv {
  readonly port: RedisPort;
  readonly names: Names;
  /** The opened store that asks. */
  readonly proc: string;
  /** How many replicas must acknowledge a grant or a renewal. */
  readonly replicas: number;
}

/** What each step is called when it fails: completes "Redis could not". */
export const DOING = {
  attempt: "try for the lock",
  end: "be told of the release",
  look: "be asked who holds the lock",
  note: "write the note",
  owns: "be asked for the owner",
  quick: "take or release the lock",
  renew: "renew the lease",
  revoke: "revoke the lock",
} as const;
