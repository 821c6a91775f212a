// Is this PostgreSQL safe to lock on (P19)? Asked when a store is opened, and by `check()`.

import { StoreUnavailableError, UnsafeStoreError, UnsupportedError } from "../../core/errors.ts";
import type { Finding } from "../../core/store.ts";
import type { CallContext } from "../shared/retry-while-unsent.ts";
import type { Connections } from "./client/connections.ts";

export interface ServerSettings {
  readonly version: number;
  readonly encoding: string;
  readonly standby: boolean;
  readonly readOnly: boolean;
  readonly fsync: string;
  readonly fullPageWrites: string;
  readonly synchronousCommit: string;
  readonly standbyNames: string;
  readonly standbys: number;
  /** Those that are on, as text; empty when none is. */
  readonly timeouts: string;
  /** Tables and functions are there. */
  readonly ready: boolean;
  /** Asked for advisory mode only. */
  readonly maxConnections: number;
}

const OLDEST = 140_000;

/** `text`: the statement of the mode. */
export async function readSettings(
  connections: Connections,
  text: string,
  call: CallContext,
): Promise<ServerSettings> {
  const [row = {}] = await connections.query(text, [], call);
  return {
    version: Number(row["version"]),
    encoding: row["encoding"] ?? "",
    standby: row["standby"] === "true",
    readOnly: row["read_only"] === "on",
    fsync: row["fsync"] ?? "",
    fullPageWrites: row["full_page_writes"] ?? "",
    synchronousCommit: row["synchronous_commit"] ?? "",
    standbyNames: row["standby_names"] ?? "",
    standbys: Number(row["standbys"]),
    timeouts: row["timeouts"] ?? "",
    ready: row["ready"] === "true",
    maxConnections: Number(row["max_connections"] ?? 0),
  };
}

/** Refuses what cannot keep a lock. */
export function refuseUnsafe(settings: ServerSettings): void {
  if (settings.version < OLDEST) {
    throw new UnsupportedError(
      `this is PostgreSQL ${settings.version / 10_000}: holdfast needs ${OLDEST / 10_000} or later`,
    );
  }
  if (settings.standby) {
    throw new StoreUnavailableError(
      "this PostgreSQL is a standby (pg_is_in_recovery), and locks live on the primary: connect to " +
        "that one, or wait for the failover to end",
    );
  }
  if (settings.readOnly) {
    throw new UnsafeStoreError("this PostgreSQL takes no writes: default_transaction_read_only is on", {
      setting: "default_transaction_read_only",
      fix: "connect to a primary that takes writes, or turn the setting off for this user or database",
    });
  }
}

export async function findings(
  connections: Connections,
  text: string,
  call: CallContext,
): Promise<Finding[]> {
  const settings = await readSettings(connections, text, call);
  const found: Finding[] = [];
  const forget = "after a crash of the machine the server may not know who held what, nor its newest fences";
  if (settings.fsync !== "on" || settings.fullPageWrites !== "on") {
    const [name, value] =
      settings.fsync === "on" ? ["full_page_writes", settings.fullPageWrites] : ["fsync", settings.fsync];
    found.push({
      id: "fsync",
      level: "danger",
      what: `${name} is ${value}`,
      why: forget,
      fix: `set ${name} = on`,
    });
  }
  if (!settings.ready) {
    found.push({
      id: "schema",
      level: "danger",
      what: "tables or functions of holdfast are missing",
      why: "nothing can be locked",
      fix: "run what `holdfast schema postgres` prints, or open a store as a user who may create them",
    });
  }
  return [...found, ...asynchronous(settings), ...timeouts(settings)];
}

function asynchronous({ standbys, standbyNames, synchronousCommit }: ServerSettings): Finding[] {
  if (standbys === 0 || (standbyNames !== "" && synchronousCommit !== "local")) return [];
  const follow = standbys === 1 ? "one standby follows" : `${standbys} standbys follow`;
  const setting = standbyNames === "" ? "synchronous_standby_names is empty" : "synchronous_commit is local";
  return [
    {
      id: "asynchronous-replication",
      level: "info",
      what: `${follow} behind the commit (${setting})`,
      why:
        "a standby that is promoted may not know of the last grants: two holders may believe at once, " +
        "and only the fence tells",
      fix:
        "set synchronous_standby_names and leave synchronous_commit on, and check the fence at the " +
        "resource",
    },
  ];
}

function timeouts(settings: ServerSettings): Finding[] {
  if (settings.timeouts === "") return [];
  return [
    {
      id: "timeouts",
      level: "info",
      what: `the server ends what takes long: ${settings.timeouts}`,
      why:
        "a call of the locks that meets a busy server is ended, and so is the session that listens for " +
        "wake-ups; the store starts both again",
      fix:
        "ALTER ROLE ... SET statement_timeout = 0, and likewise idle_session_timeout, for the user of " +
        "the locks",
    },
  ];
}

/** `failure`: why nothing is heard, or null. */
export function noPush(failure: Error | null): Finding[] {
  if (failure === null) return [];
  return [
    {
      id: "no-push",
      level: "warning",
      what: `notifications do not arrive: ${failure.message}`,
      why:
        "waiters learn of their turn by their heartbeat only, and holders of a revocation by their next " +
        "renewal",
      fix: "let the store connect to the server itself (a session, not a transaction pooler) for LISTEN",
    },
  ];
}
