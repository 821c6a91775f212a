// Opens a store: connects, looks what kind of server it is, refuses what is unsafe, and makes the tables if they are missing.

import { InvalidArgumentError } from "../../core/errors.ts";
import { showKey } from "../../core/key.ts";
import type {
  AttemptAnswer,
  Guarantees,
  Io,
  OpenStore,
  RenewAnswer,
  RenewItem,
  Request,
  StoreEnv,
} from "../../core/store.ts";
import { LeaseTable } from "../shared/lease-table.ts";
import type { Login } from "./address.ts";
import { readFacts, refuseForRows } from "./check.ts";
import { loadMysql2, Mysql2Port } from "./client.ts";
import { mysqlError } from "./errors.ts";
import { Fleet } from "./fleet.ts";
import { mysqlGuarantees, mysqlSeveralGuarantees } from "./guarantees.ts";
import { Link } from "./link.ts";
import { Pool } from "./pool.ts";
import type { Address, SqlConnection } from "./port.ts";
import { RowOpenStore } from "./row-store.ts";
import { ensureSchema, rowSchema } from "./schema.ts";
import { MysqlTable } from "./table.ts";

export async function openRows(login: Login, env: StoreEnv): Promise<OpenStore> {
  const port = new Mysql2Port(await loadMysql2(), login);
  const [host] = port.hosts as readonly [Address];
  const connect = (): Promise<SqlConnection> => port.connect(host);
  let connection: SqlConnection | null = null;
  try {
    connection = await connect();
    const facts = await readFacts(connection);
    refuseForRows(facts);
    await ensureSchema(connection, rowSchema);
    const remakeTables = (): Promise<void> => remakeRows(connect);
    const link = new Link(connect, () => env.system.monoMs(), connection);
    return new RowOpenStore({ link, facts, port, connect, remakeTables }, env);
  } catch (error) {
    connection?.destroy();
    throw mysqlError(error, "be opened");
  }
}

/** A table was found to be gone. */
async function remakeRows(connect: () => Promise<SqlConnection>): Promise<void> {
  const connection = await connect();
  try {
    await ensureSchema(connection, rowSchema);
  } finally {
    connection.destroy();
  }
}

/** What a call of `mysql()` says about the lease table. */
export interface TableWish {
  /** No lease is longer; 0 = any length. */
  readonly maxTtlMs: number;
}

export async function openTable(login: Login, { maxTtlMs }: TableWish, env: StoreEnv): Promise<OpenStore> {
  const port = new Mysql2Port(await loadMysql2(), login);
  const several = port.hosts.length > 1;
  const pool = new Pool(new Fleet(port, maxTtlMs + longestGraceMs(maxTtlMs) + UNDER_WAY_MS), env.system);
  try {
    await pool.primary({ signal: new AbortController().signal });
    const { namespace, system } = env;
    const table = new MysqlTable(pool, { namespace, system, several });
    const guarantees = several ? mysqlSeveralGuarantees : mysqlGuarantees;
    const limits = { maxTtlMs: several ? maxTtlMs : Number.POSITIVE_INFINITY };
    return await new BoundedLeaseTable(table, guarantees, limits, env).start();
  } catch (error) {
    pool.close();
    throw mysqlError(error, "be opened");
  }
}

/** For what is on its way between servers. */
const UNDER_WAY_MS = 1_000;

/** The default grace is a tenth of the ttl. */
function longestGraceMs(maxTtlMs: number): number {
  return maxTtlMs / 10 + 1_000;
}

/** With several servers no lease may outlast the pause of a new primary. */
class BoundedLeaseTable extends LeaseTable {
  readonly #maxTtlMs: number;

  constructor(table: MysqlTable, guarantees: Guarantees, limits: { maxTtlMs: number }, env: StoreEnv) {
    super("mysql", table, guarantees, env);
    this.#maxTtlMs = limits.maxTtlMs;
  }

  override attempt(request: Request, io: Io): Promise<AttemptAnswer<null>> {
    const refusal = this.#refusal(request.ttlMs, request);
    return refusal === null ? super.attempt(request, io) : Promise.reject(refusal);
  }

  override renew(items: readonly RenewItem<null>[], io: Io): Promise<readonly RenewAnswer[]> {
    for (const { ttlMs, request } of items) {
      const refusal = this.#refusal(ttlMs, request);
      if (refusal !== null) return Promise.reject(refusal);
    }
    return super.renew(items, io);
  }

  #refusal(ttlMs: number, { keys, graceMs }: Request): InvalidArgumentError | null {
    const mostGraceMs = longestGraceMs(this.#maxTtlMs);
    if (ttlMs <= this.#maxTtlMs && graceMs <= mostGraceMs) return null;
    return new InvalidArgumentError(
      `the lease of ${showKey(keys[0] as string)} would last ${ttlMs} ms and ${graceMs} ms of grace: ` +
        `with several hosts at most ${this.#maxTtlMs} ms (maxTtl) and ${mostGraceMs} ms, ` +
        "because a new primary waits for so long",
      { key: keys[0] },
    );
  }
}
