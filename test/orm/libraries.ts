// The libraries under test: each opens a transaction of its own kind and gives what `inTransaction` takes.

import { MikroORM as MysqlMikroOrm } from "@mikro-orm/mysql";
import { MikroORM as PostgresMikroOrm } from "@mikro-orm/postgresql";
import { PrismaMariaDb } from "@prisma/adapter-mariadb";
import { PrismaPg } from "@prisma/adapter-pg";
import { drizzle as drizzleMysql } from "drizzle-orm/mysql2";
import { drizzle as drizzlePostgres } from "drizzle-orm/node-postgres";
import { sql as drizzleSql } from "drizzle-orm";
import { knex as openKnex } from "knex";
import { CamelCasePlugin, Kysely, MysqlDialect, PostgresDialect, sql } from "kysely";
import { createPool } from "mysql2";
import { createPool as createPromisePool } from "mysql2/promise";
import { DataSource } from "typeorm";
import type { TransactionPort } from "../../src/index.ts";
import { transaction as ofDrizzle } from "../../src/orm/drizzle.ts";
import { transaction as ofKnex } from "../../src/orm/knex.ts";
import { transaction as ofKysely } from "../../src/orm/kysely.ts";
import { transaction as ofMikroOrm } from "../../src/orm/mikro-orm.ts";
import { transaction as ofPrisma } from "../../src/orm/prisma.ts";
import { transaction as ofTypeorm } from "../../src/orm/typeorm.ts";
import { openPool } from "../support/pg-pool.ts";
import { openPrisma } from "./prisma-client.ts";

export type Database = "postgres" | "mysql";

/** A transaction of a library: as `inTransaction` takes it, and for statements of the application. */
export interface OpenTransaction {
  readonly port: TransactionPort;
  run(statement: string): Promise<unknown>;
}

export interface Library {
  /** Commits, or rolls back when `work` throws. */
  transact<T>(work: (tx: OpenTransaction) => Promise<T>): Promise<T>;
  close(): Promise<unknown>;
}

type Open = (database: Database, url: string) => Promise<Library>;

async function kysely(database: Database, url: string): Promise<Library> {
  const dialect =
    database === "postgres"
      ? new PostgresDialect({ pool: openPool(url) })
      : new MysqlDialect({ pool: createPool(url) });
  const db = new Kysely<unknown>({ dialect, plugins: [new CamelCasePlugin()] });
  return {
    transact: (work) =>
      db.transaction().execute((trx) => {
        const run = (statement: string): Promise<unknown> => sql.raw(statement).execute(trx);
        return work({ port: ofKysely(trx), run });
      }),
    close: () => db.destroy(),
  };
}

async function drizzle(database: Database, url: string): Promise<Library> {
  if (database === "postgres") {
    const pool = openPool(url);
    const transact: Library["transact"] = (work) =>
      drizzlePostgres({ client: pool }).transaction((tx) => {
        const run = (statement: string): Promise<unknown> => tx.execute(drizzleSql.raw(statement));
        return work({ port: ofDrizzle(tx), run });
      });
    return { transact, close: () => pool.end() };
  }
  const pool = createPromisePool(url);
  return {
    transact: (work) =>
      drizzleMysql({ client: pool }).transaction((tx) => {
        const run = (statement: string): Promise<unknown> => tx.execute(drizzleSql.raw(statement));
        return work({ port: ofDrizzle(tx), run });
      }),
    close: () => pool.end(),
  };
}

async function knex(database: Database, url: string): Promise<Library> {
  const db = openKnex({ client: database === "postgres" ? "pg" : "mysql2", connection: url });
  return {
    transact: (work) =>
      db.transaction((trx) =>
        work({ port: ofKnex(trx), run: async (statement) => (await trx.raw(statement)) as unknown }),
      ),
    close: () => db.destroy(),
  };
}

async function typeorm(database: Database, url: string): Promise<Library> {
  const source = await new DataSource({ type: database, url }).initialize();
  return {
    transact: (work) =>
      source.transaction((manager) =>
        work({ port: ofTypeorm(manager), run: (statement) => manager.query(statement) }),
      ),
    close: () => source.destroy(),
  };
}

async function mikroOrm(database: Database, url: string): Promise<Library> {
  const options = { clientUrl: url, entities: [], discovery: { warnWhenNoEntities: false } };
  const orm =
    database === "postgres" ? await PostgresMikroOrm.init(options) : await MysqlMikroOrm.init(options);
  return {
    transact: (work) =>
      orm.em
        .fork()
        .transactional((em) => work({ port: ofMikroOrm(em), run: (statement) => em.execute(statement) })),
    close: () => orm.close(true),
  };
}

async function prisma(database: Database, url: string): Promise<Library> {
  const adapter =
    database === "postgres"
      ? new PrismaPg({ connectionString: url })
      : new PrismaMariaDb(url.replace("mysql:", "mariadb:"));
  const client = openPrisma(database === "postgres" ? "postgresql" : "mysql", adapter);
  return {
    transact: (work) =>
      client.$transaction(
        (tx) => work({ port: ofPrisma(tx), run: (statement) => tx.$executeRawUnsafe(statement) }),
        { timeout: 60_000 },
      ),
    close: () => client.$disconnect(),
  };
}

export const LIBRARIES: Readonly<Record<string, Open>> = { kysely, drizzle, knex, typeorm, mikroOrm, prisma };
