// The things that the lock protects: a counter in Redis or etcd, in a row, and in a service behind HTTP. Each can be touched with
// its guard and without. The first touch reads the counter; under a guard it is also the claim.

import { createConnection, type Connection as MysqlConnection } from "mysql2/promise";
import { Client as PgClient } from "pg";
import { createClient } from "redis";
import type { Lease } from "holdfast";
import { etcdGateway, fenceHeader, guardKey, guardRow } from "holdfast/fence";

export interface Resource {
  /** The first touch. `guard` is the lease that is to be shown, or null to do without. */
  read(guard: Lease | null): Promise<number>;
  write(value: number, guard: Lease | null): Promise<void>;
  close(): Promise<void>;
}

/** A connection that can run one transaction after the other. */
interface Sql {
  query(text: string, values: unknown[]): Promise<unknown>;
}

const ID = 139;

export async function openResource(url: string, name: string): Promise<Resource> {
  switch (new URL(url).protocol) {
    case "redis:":
      return redisKey(url, name);
    case "etcd:":
      return etcdKey(url.replace(/^etcd:/, "http:"), name);
    case "postgres:":
      return postgresRow(url, name);
    case "mysql:":
      return mysqlRow(url, name);
    default:
      return service(url, name);
  }
}

async function redisKey(url: string, key: string): Promise<Resource> {
  const client = createClient({ url });
  await client.connect();
  return {
    async read(guard) {
      if (guard !== null) await guardKey(client, key, guard);
      return Number((await client.get(key)) ?? 0);
    },
    async write(value, guard) {
      if (guard !== null) await guardKey.set(client, key, String(value), guard);
      else await client.set(key, String(value));
    },
    async close() {
      await client.quit();
    },
  };
}

function etcdKey(url: string, key: string): Resource {
  const client = etcdGateway(url);
  const ask = async (
    path: string,
    body: object,
  ): Promise<{ readonly kvs?: readonly { value: string }[] }> => {
    const answer = await fetch(`${url}/v3/kv/${path}`, { method: "POST", body: JSON.stringify(body) });
    return (await answer.json()) as { readonly kvs?: readonly { value: string }[] };
  };
  const base64 = (text: string): string => Buffer.from(text).toString("base64");
  return {
    async read(guard) {
      if (guard !== null) await guardKey(client, key, guard);
      const { kvs = [] } = await ask("range", { key: base64(key) });
      return Number(Buffer.from(kvs[0]?.value ?? "", "base64").toString() || 0);
    },
    async write(value, guard) {
      if (guard !== null) await guardKey.set(client, key, String(value), guard);
      else await ask("put", { key: base64(key), value: base64(String(value)) });
    },
    close: () => Promise.resolve(),
  };
}

async function postgresRow(url: string, table: string): Promise<Resource> {
  const client = new PgClient({ connectionString: url });
  await client.connect();
  await client.query(
    `CREATE TABLE IF NOT EXISTS "${table}" (id bigint PRIMARY KEY, fence bigint, value bigint)`,
  );
  await client.query(`INSERT INTO "${table}" VALUES (${ID}, NULL, 0) ON CONFLICT DO NOTHING`);
  const work = transactions(client);
  return {
    read: (guard) =>
      work(async () => {
        if (guard !== null) await guardRow(client, { table, id: ID, fence: guard });
        const { rows } = await client.query<{ value: string }>(
          `SELECT value FROM "${table}" WHERE id = ${ID}`,
        );
        return Number(rows[0]?.value);
      }),
    write: (value, guard) =>
      work(async () => {
        if (guard !== null) await guardRow(client, { table, id: ID, fence: guard });
        await client.query(`UPDATE "${table}" SET value = $1 WHERE id = ${ID}`, [value]);
      }),
    close: () => client.end(),
  };
}

async function mysqlRow(url: string, table: string): Promise<Resource> {
  const connection: MysqlConnection = await createConnection(url);
  await connection.query(
    `CREATE TABLE IF NOT EXISTS \`${table}\` (id bigint PRIMARY KEY, fence bigint, value bigint) ENGINE=InnoDB`,
  );
  await connection.query(`INSERT IGNORE INTO \`${table}\` VALUES (${ID}, NULL, 0)`);
  const work = transactions(connection);
  return {
    read: (guard) =>
      work(async () => {
        if (guard !== null) await guardRow(connection, { table, id: ID, fence: guard });
        const [rows] = await connection.query(`SELECT value FROM \`${table}\` WHERE id = ${ID}`);
        return Number((rows as { value: number }[])[0]?.value);
      }),
    write: (value, guard) =>
      work(async () => {
        if (guard !== null) await guardRow(connection, { table, id: ID, fence: guard });
        await connection.query(`UPDATE \`${table}\` SET value = ? WHERE id = ${ID}`, [value]);
      }),
    close: () => connection.end(),
  };
}

function transactions(sql: Sql): <T>(work: () => Promise<T>) => Promise<T> {
  return async (work) => {
    await sql.query("BEGIN", []);
    try {
      const result = await work();
      await sql.query("COMMIT", []);
      return result;
    } catch (error) {
      await sql.query("ROLLBACK", []);
      throw error;
    }
  };
}

/** The service is in service.ts. Without a guard it has a door that asks for nothing. */
function service(url: string, name: string): Resource {
  const ask = async (method: string, guard: Lease | null, body?: string): Promise<number> => {
    const path = `${url}${guard === null ? "open" : "guarded"}/${name}`;
    const headers = guard === null ? {} : fenceHeader(guard);
    const answer = await fetch(path, { method, headers, ...(body === undefined ? {} : { body }) });
    if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
    return Number(await answer.text());
  };
  return {
    read: (guard) => ask("GET", guard),
    write: async (value, guard) => void (await ask("PUT", guard, String(value))),
    close: () => Promise.resolve(),
  };
}
