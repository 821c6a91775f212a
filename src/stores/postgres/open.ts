// Opens a store: connects, refuses what is unsafe, and creates tables and functions where they are missing.

import type { OpenStore, StoreEnv } from "../../core/store.ts";
import { AdvisoryBackend } from "./advisory/backend.ts";
import { Notifications } from "./advisory/notifications.ts";
import { AdvisoryStore } from "./advisory/store.ts";
import { Connections, type PgPool } from "./client/connections.ts";
import { detectPooler, poolerFindings, refusePooler } from "./client/pooler-detection.ts";
import { postgresError } from "./errors.ts";
import type { PostgresSettings } from "./options.ts";
import { openTables } from "./schema.ts";
import { PostgresStore } from "./store.ts";

/** The pool is ours to close if `own`. */
export async function openStore(
  pool: PgPool,
  own: boolean,
  settings: PostgresSettings,
  env: StoreEnv,
): Promise<OpenStore> {
  const connections = new Connections(pool, own, () => env.system.monoMs());
  try {
    return await (settings.mode === "table"
      ? openTable(connections, settings, env)
      : openAdvisory(connections, settings, env));
  } catch (error) {
    await connections.close();
    throw postgresError(error, "be opened", undefined);
  }
}

async function openTable(
  connections: Connections,
  settings: PostgresSettings,
  env: StoreEnv,
): Promise<OpenStore> {
  const { sql, server } = await openTables(connections, settings);
  connections.setUpSessions(sql.own_session);
  const store = new PostgresStore(connections, sql, server.encoding === "UTF8", env);
  await store.start();
  return store;
}

async function openAdvisory(
  connections: Connections,
  settings: PostgresSettings,
  env: StoreEnv,
): Promise<OpenStore> {
  const path = await detectPooler(connections);
  refusePooler(path, env.allow);
  const { sql, server } = await openTables(connections, settings);
  const notifications = new Notifications();
  const known = {
    utf8: server.encoding === "UTF8",
    findings: poolerFindings(path),
    maxConnections: server.maxConnections,
    notifications,
  };
  const backend = new AdvisoryBackend(connections, sql, env, known);
  return new AdvisoryStore(backend, notifications, env);
}
