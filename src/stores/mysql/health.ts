// What kind of server this is, and is it safe to lock on (P19)? Asked when a store is opened, and by
// `check()`.

import { StoreUnavailableError, UnsafeStoreError, UnsupportedError } from "../../core/errors.ts";
import type { Finding } from "../../core/store.ts";
import { type Dialect, type SqlConnection, textOf } from "./client/port.ts";

export interface ServerFacts {
  /** Which server this is, whatever address it was reached by. */
  readonly server: string;
  /** When it was started, by its own clock, to the second. */
  readonly startedUs: number;
  readonly dialect: Dialect;
  readonly version: string;
  readonly readOnly: boolean;
  /** A member of a Galera cluster, whose rows are locked on one member only. */
  readonly galera: boolean;
  /** innodb_flush_log_at_trx_commit. */
  readonly flush: string;
  /** Where there is a binary log: sync_binlog. */
  readonly syncBinlog: string | null;
  /** Seconds after which the server ends a session that says nothing. */
  readonly idleSeconds: number;
  /** Seconds after which MariaDB ends a transaction that says nothing; 0 is never. */
  readonly idleTransactionSeconds: number;
}

const OLDEST: Readonly<Record<Dialect, readonly [number, number]>> = { mariadb: [10, 6], mysql: [8, 0] };

const WANTED = [
  ...["version", "read_only", "super_read_only", "wsrep_on", "innodb_flush_log_at_trx_commit"],
  ...["log_bin", "sync_binlog", "wait_timeout", "idle_transaction_timeout", "idle_write_transaction_timeout"],
  ...["server_uuid", "server_id", "hostname", "port", "timestamp"],
];

export async function readFacts(connection: SqlConnection): Promise<ServerFacts> {
  const names = WANTED.map((name) => `'${name}'`).join(", ");
  const variables = await connection.run(`SHOW VARIABLES WHERE Variable_name IN (${names})`);
  const status = await connection.run("SHOW GLOBAL STATUS LIKE 'Uptime'");
  const values = new Map(
    [...variables.rows, ...status.rows].map((row) => [
      textOf(row["Variable_name"]).toLowerCase(),
      textOf(row["Value"]),
    ]),
  );
  const on = (name: string): boolean => /^(on|1)$/i.test(values.get(name) ?? "");
  const version = values.get("version") ?? "";
  const [id, host, port] = [values.get("server_id"), values.get("hostname"), values.get("port")];
  return {
    // MariaDB has no UUID; servers that replicate have different numbers.
    server: values.get("server_uuid") ?? `${id}@${host}:${port}`,
    startedUs: Math.round(Number(values.get("timestamp")) - Number(values.get("uptime"))) * 1_000_000,
    dialect: /mariadb/i.test(version) ? "mariadb" : "mysql",
    version,
    readOnly: on("read_only") || on("super_read_only"),
    galera: on("wsrep_on"),
    flush: values.get("innodb_flush_log_at_trx_commit") ?? "",
    syncBinlog: on("log_bin") ? (values.get("sync_binlog") ?? "") : null,
    idleSeconds: Number(values.get("wait_timeout") ?? Number.POSITIVE_INFINITY),
    idleTransactionSeconds: Math.max(
      Number(values.get("idle_transaction_timeout") ?? 0),
      Number(values.get("idle_write_transaction_timeout") ?? 0),
    ),
  };
}

/** Refuses what cannot keep the promises. */
export function refuseOld({ dialect, version }: ServerFacts): void {
  const [major = 0, minor = 0] = version.split(".").map((part) => Number.parseInt(part, 10));
  const [oldMajor, oldMinor] = OLDEST[dialect];
  if (major > oldMajor || (major === oldMajor && minor >= oldMinor)) return;
  throw new UnsupportedError(`this is ${version}: holdfast needs MySQL 8.0 or MariaDB 10.6, or later`);
}

/** Row mode: the lock must be on the one server that everybody writes to. */
export function refuseForRows(facts: ServerFacts): void {
  refuseOld(facts);
  if (facts.readOnly) {
    throw new StoreUnavailableError(
      "this server is read-only, and locks live on the primary: connect to that one",
    );
  }
  if (!facts.galera) return;
  throw new UnsafeStoreError(
    "this server is a member of a Galera cluster, where a row is locked on one member only",
    {
      setting: "wsrep_on",
      fix: "use the lease table (without ?mode=row), or one server that is no member of a cluster",
    },
  );
}

export function rowFindings(facts: ServerFacts): Finding[] {
  return [...durability(facts), ...idleSessions(facts), ...idleTransactions(facts)];
}

/** Rows are locked as long as their transaction lives. */
function idleTransactions({ idleTransactionSeconds: seconds }: ServerFacts): Finding[] {
  if (seconds === 0) return [];
  return [
    {
      id: "idle-transactions",
      level: "danger",
      what: `the server ends a transaction that says nothing for ${seconds} s`,
      why: "in row mode that frees the row while its holder still works",
      fix:
        "set idle_transaction_timeout and idle_write_transaction_timeout to 0, or use the lease table " +
        "(without ?mode=row)",
    },
  ];
}

const IDLE_SECONDS = 60;

function idleSessions({ idleSeconds }: ServerFacts): Finding[] {
  if (idleSeconds >= IDLE_SECONDS) return [];
  return [
    {
      id: "timeouts",
      level: "warning",
      what: `wait_timeout is ${idleSeconds} s`,
      why:
        "connections that rest between two calls are ended by the server; the next call pays for a " +
        "new one, and what is held in a session is lost with it",
      fix: `set wait_timeout to ${IDLE_SECONDS} or more for this user's sessions`,
    },
  ];
}

function durability({ flush, syncBinlog }: ServerFacts): Finding[] {
  const lax = [
    ...(flush === "1" || flush === "" ? [] : [`innodb_flush_log_at_trx_commit is ${flush}`]),
    ...(syncBinlog === null || syncBinlog === "" || syncBinlog === "1"
      ? []
      : [`sync_binlog is ${syncBinlog}`]),
  ];
  if (lax.length === 0) return [];
  return [
    {
      id: "durability",
      level: "warning",
      what: lax.join(", "),
      why:
        "after a power cut the server may have forgotten its last second: a lease that was granted in " +
        "it, and its fence",
      fix: "set innodb_flush_log_at_trx_commit = 1 and sync_binlog = 1",
    },
  ];
}

export function tableFindings(
  facts: ServerFacts,
  { several, isListening }: { readonly several: boolean; readonly isListening: boolean },
): Finding[] {
  const found = [...durability(facts), ...idleSessions(facts)];
  if (several && !facts.galera) found.push(ASYNCHRONOUS);
  if (!isListening) found.push(NO_PUSH);
  return found;
}

const ASYNCHRONOUS: Finding = {
  id: "asynchronous-replication",
  level: "info",
  what: "several servers replicate behind the commit",
  why:
    "after a failover the new primary grants nothing until every lease of the old one is over; what " +
    "the old one granted and did not replicate is covered by the fence, which goes by the clock then",
  fix: "check the fence at the resource; keep maxTtl short, because it is the length of that pause",
};

const NO_PUSH: Finding = {
  id: "no-push",
  level: "warning",
  what: "this opened store cannot be woken by others: it has no session that waits on the server",
  why:
    "waiters learn of their turn by their heartbeat only, and holders of a revocation by their next " +
    "renewal",
  fix: "allow one more connection to this user (max_connections, max_user_connections)",
};
