// Opens a store: connects, refuses what is unsafe, makes the tables if they are not there and this user may.

import { UnsupportedError } from "../../core/errors.ts";
import type { OpenStore, StoreEnv } from "../../core/store.ts";
import { LeaseTable } from "../shared/lease-table.ts";
import { isMissing } from "../shared/missing-client.ts";
import { Pushes } from "../shared/pushes.ts";
import { SessionStore } from "../shared/session-store.ts";
import { AdvisoryDesk } from "./advisory.ts";
import { readSettings, refuseUnsafe, type Settings } from "./check.ts";
import { postgresError } from "./errors.ts";
import { advisoryGuarantees, postgresGuarantees } from "./guarantees.ts";
import { pathOf, poolerFindings, refusePooler } from "./pooler.ts";
import { forEver, PgPort, type PgPool } from "./port.ts";
import { type Sql, sqlFor } from "./sql.ts";
import { PostgresTable } from "./table.ts";

export interface Place {
  readonly table: string;
  readonly mode: "table" | "advisory";
}

/** The pool is ours to close if `own`. */
export function openStore(pool: PgPool, own: boolean, place: Place, env: StoreEnv): Promise<OpenStore> {
  return place.mode === "table" ? openTable(pool, own, place, env) : openAdvisory(pool, own, place, env);
}

async function openAdvisory(pool: PgPool, own: boolean, place: Place, env: StoreEnv): Promise<OpenStore> {
  const all = sqlFor(place.table);
  const sql = { ...all, settings: all.session_settings, schema: all.session_schema };
  const port = new PgPort(pool, own, () => env.system.monoMs());
  try {
    const path = await pathOf(port);
    refusePooler(path, env.allow);
    const settings = await prepare(port, sql);
    port.remakeBy(() => createTables(port, sql));
    const pushes = new Pushes();
    const known = { utf8: settings.encoding === "UTF8", findings: poolerFindings(path), pushes };
    return new SessionStore(new AdvisoryDesk(port, all, env, known), pushes, advisoryGuarantees, env);
  } catch (error) {
    await port.close();
    throw postgresError(error, "be opened", undefined, sql.schema);
  }
}

async function openTable(pool: PgPool, own: boolean, place: Place, env: StoreEnv): Promise<OpenStore> {
  const sql = sqlFor(place.table);
  const port = new PgPort(pool, own, () => env.system.monoMs());
  try {
    const settings = await prepare(port, sql);
    port.remakeBy(() => createTables(port, sql));
    const { namespace, system } = env;
    const table = new PostgresTable(port, settings, { namespace, sql, system });
    return await new LeaseTable("postgres", table, postgresGuarantees, env).start();
  } catch (error) {
    await port.close();
    throw postgresError(error, "be opened", undefined, sql.schema);
  }
}

async function prepare(port: PgPort, sql: Sql): Promise<Settings> {
  const settings = await readSettings(port, sql, forEver());
  refuseUnsafe(settings);
  if (!settings.ready) await createTables(port, sql);
  return settings;
}

/** One after another, because `IF NOT EXISTS` alone fails in one of two who do it at the same moment. One message, so one transaction. */
async function createTables(port: PgPort, sql: Sql): Promise<void> {
  const alone = "SELECT pg_advisory_xact_lock(hashtextextended('holdfast: tables', 0))";
  await port.query(`${alone};\n${sql.schema}`, [], forEver());
}

interface PgModule {
  readonly Pool: new (options: object) => PgPool;
}

/** Loads the package, which users install beside this one. */
export async function loadPg(): Promise<PgModule> {
  const { default: pg } = await import(/* webpackIgnore: true */ "pg").catch((error: unknown) => {
    if (!isMissing(error)) throw error;
    throw new UnsupportedError("the postgres store needs a client: npm i pg", { cause: error });
  });
  return pg as unknown as PgModule;
}

/** By URL: a pool of our own, small, which keeps no process alive. */
export async function ownPool(url: string): Promise<PgPool> {
  const pg = await loadPg();
  return new pg.Pool({
    connectionString: url,
    max: MOST_CONNECTIONS,
    connectionTimeoutMillis: CONNECT_MS,
    allowExitOnIdle: true,
    keepAlive: true,
    application_name: "holdfast",
  });
}

/** A process asks for a few things at a time; more would only queue up in the server. */
const MOST_CONNECTIONS = 6;
const CONNECT_MS = 2_000;
