// Is there a pooler between us and the server that gives every transaction another session? A session lock
// would then be taken on one session and let go on another, or never. Asked before anything is set on a
// connection, because it might be somebody else's.

import { UnsafeStoreError } from "../../../core/errors.ts";
import type { Finding } from "../../../core/store.ts";
import { type Connections, destroy, type OwnClient } from "./connections.ts";

export type Path = "direct" | "session" | "transaction";

const TRIES = 3;

/**
 * 1. The server tells its number at the start of a connection. If it is the number of the session, nobody
 * stands between.
 * 2. Else two connections are tried against each other: while one is inside a transaction, a pooler that
 * shares sessions has to give
 *    the other a different one than before, or has given the same one to both.
 */
export async function detectPooler(connections: Connections): Promise<Path> {
  const [one, two] = [await connections.connect(), await connections.connect()];
  try {
    if (one.processID !== null && one.processID === (await pidOf(one))) return "direct";
    for (let tries = 0; tries < TRIES; tries += 1) {
      const before = await pidOf(one);
      await two.query({ text: "BEGIN" });
      const [other, after] = [await pidOf(two), await pidOf(one)];
      await two.query({ text: "ROLLBACK" });
      if (other === before || after !== before) return "transaction";
    }
    return "session";
  } finally {
    destroy(one);
    destroy(two);
  }
}

async function pidOf(client: OwnClient): Promise<number> {
  const { rows } = await client.query({ text: "SELECT pg_backend_pid()::text AS pid" });
  return Number(rows[0]?.["pid"]);
}

const FIX =
  "connect to the server itself, or to a pooler in session mode, or use the table mode, which works behind " +
  'any pooler; or accept it with allow: ["pooler"]';

export function refusePooler(path: Path, allow: readonly string[]): void {
  if (path !== "transaction" || allow.includes("pooler")) return;
  throw new UnsafeStoreError(
    "between this process and PostgreSQL stands a pooler that changes the session with every " +
      "transaction, so a session lock would be nobody's",
    { setting: "pool_mode", fix: FIX },
  );
}

export function poolerFindings(path: Path): Finding[] {
  if (path === "direct") return [];
  const sure = path === "transaction";
  return [
    {
      id: "pooler",
      level: sure ? "danger" : "info",
      what: `a pooler stands before the server, in ${path} mode as far as can be seen`,
      why: "a session lock belongs to a session, and a pooler that shares sessions gives it to others",
      fix: FIX,
    },
  ];
}
