// Opens a store: connects, refuses what is unsafe, makes the tables if they are not there and this user may.

import { UnsupportedError } from "../../core/errors.ts";
import type { OpenStore, StoreEnv } from "../../core/store.ts";
import { LeaseTable } from "../shared/lease-table.ts";
import { isMissing } from "../shared/missing-client.ts";
import { Pushes } from "../shared/pushes.ts";
import { SessionStore } from "../shared/session-store.ts";
import { AdvisoryDesk } from "./advisory.ts";
import { postgresError } from "./errors.ts";
import { advisoryGuarantees, postgresGuarantees } from "./guarantees.ts";
import { pathOf, poolerFindings, refusePooler } from "./pooler.ts";
import { PgPort, type PgPool } from "./port.ts";
import { openTables, type Place, statementsFor } from "./schema.ts";
import { PostgresTable } from "./table.ts";

/** The pool is ours to close if `own`. */
export async function openStore(pool: PgPool, own: boolean, place: Place, env: StoreEnv): Promise<OpenStore> {
  const port = new PgPort(pool, own, () => env.system.monoMs());
  try {
    return await (place.mode === "table" ? openTable(port, place, env) : openAdvisory(port, place, env));
  } catch (error) {
    await port.close();
    throw postgresError(error, "be opened", undefined, statementsFor(place).schema);
  }
}

async function openAdvisory(port: PgPort, place: Place, env: StoreEnv): Promise<OpenStore> {
  const path = await pathOf(port);
  refusePooler(path, env.allow);
  const { sql, settings } = await openTables(port, place);
  const pushes = new Pushes();
  const known = { utf8: settings.encoding === "UTF8", findings: poolerFindings(path), pushes };
  return new SessionStore(new AdvisoryDesk(port, sql, env, known), pushes, advisoryGuarantees, env);
}

async function openTable(port: PgPort, place: Place, env: StoreEnv): Promise<OpenStore> {
  const { sql, settings } = await openTables(port, place);
  const { namespace, system } = env;
  const table = new PostgresTable(port, settings, { namespace, sql, system });
  return new LeaseTable("postgres", table, postgresGuarantees, env).start();
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
