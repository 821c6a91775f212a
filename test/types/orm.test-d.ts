// The adapters for ORMs take transactions and nothing else. Compiled, never run.

import type { SqlEntityManager as MikroOrmManager } from "@mikro-orm/postgresql";
import type { NodePgDatabase } from "drizzle-orm/node-postgres";
import type { Knex } from "knex";
import type { Kysely, Transaction } from "kysely";
import type { DataSource, EntityManager, QueryRunner } from "typeorm";
import type { Locks } from "holdfast";
import { transaction as ofDrizzle } from "../../src/orm/drizzle.ts";
import { transaction as ofKnex } from "../../src/orm/knex.ts";
import { transaction as ofKysely } from "../../src/orm/kysely.ts";
import { transaction as ofMikroOrm } from "../../src/orm/mikro-orm.ts";
import { transaction as ofPrisma } from "../../src/orm/prisma.ts";
import { transaction as ofTypeorm } from "../../src/orm/typeorm.ts";
import type { PrismaClient, RawClient } from "../orm/prisma-client.ts";

declare const locks: Locks;

export function transactions(
  kysely: Transaction<unknown>,
  drizzle: Parameters<Parameters<NodePgDatabase["transaction"]>[0]>[0],
  knex: Knex.Transaction,
  typeorm: { readonly manager: EntityManager; readonly runner: QueryRunner },
  mikroOrm: MikroOrmManager,
  prisma: RawClient,
): void {
  locks.inTransaction(ofKysely(kysely));
  locks.inTransaction(ofDrizzle(drizzle));
  locks.inTransaction(ofKnex(knex));
  locks.inTransaction(ofTypeorm(typeorm.manager));
  locks.inTransaction(ofTypeorm(typeorm.runner));
  locks.inTransaction(ofMikroOrm(mikroOrm));
  locks.inTransaction(ofPrisma(prisma));
}

export function noTransactions(
  kysely: Kysely<unknown>,
  drizzle: NodePgDatabase,
  knex: Knex,
  typeorm: DataSource,
  prisma: PrismaClient,
): void {
  // @ts-expect-error: a database, which may run every statement on another connection
  ofKysely(kysely);
  // @ts-expect-error: a database
  ofDrizzle(drizzle);
  // @ts-expect-error: a database
  ofKnex(knex);
  // @ts-expect-error: a data source
  ofTypeorm(typeorm);
  // @ts-expect-error: a client
  ofPrisma(prisma);
  // @ts-expect-error: a transaction of another library
  ofKysely(knex);
  // @ts-expect-error: any object
  ofMikroOrm({});
}
