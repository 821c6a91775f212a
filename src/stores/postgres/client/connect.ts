// Loads the package `pg` and makes a pool for a URL.

import { UnsupportedError } from "../../../core/errors.ts";
import { isMissing } from "../../shared/missing-client.ts";
import type { PgPool } from "./connections.ts";

/** A process asks for a few things at a time; more would only queue up in the server. */
const MOST_CONNECTIONS = 6;
const CONNECT_MS = 2_000;
/** Longer than the longest interval between two heartbeats: a new session costs more than many of them. */
const IDLE_MS = 30_000;

interface PgModule {
  readonly Pool: new (options: object) => PgPool;
}

/** Users install the package beside this one. */
export async function loadPg(): Promise<PgModule> {
  const { default: pg } = await import(/* webpackIgnore: true */ "pg").catch((error: unknown) => {
    if (!isMissing(error)) throw error;
    throw new UnsupportedError("the postgres store needs a client: npm i pg", { cause: error });
  });
  return pg as unknown as PgModule;
}

/** A pool of our own, small, which keeps no process alive. */
export async function ownPool(url: string): Promise<PgPool> {
  const pg = await loadPg();
  return new pg.Pool({
    connectionString: url,
    max: MOST_CONNECTIONS,
    connectionTimeoutMillis: CONNECT_MS,
    idleTimeoutMillis: IDLE_MS,
    allowExitOnIdle: true,
    keepAlive: true,
    application_name: "holdfast",
  });
}
