// Connections to a MySQL or MariaDB for tests that ask the server itself, past the product.

import { type Connection, createConnection, type ResultSetHeader, type RowDataPacket } from "mysql2/promise";

export class Asking {
  readonly connection: Connection;

  private constructor(connection: Connection) {
    this.connection = connection;
    // A connection that the server ends says so to whoever asks next.
    connection.on("error", () => {});
  }

  static async open(url: string, options: object = {}): Promise<Asking> {
    return new Asking(await createConnection({ uri: url, ...options }));
  }

  async rows(sql: string, values: unknown[] = []): Promise<RowDataPacket[]> {
    return (await this.connection.query<RowDataPacket[]>(sql, values))[0];
  }

  async one(sql: string, values: unknown[] = []): Promise<unknown> {
    const [row] = await this.rows(sql, values);
    return row === undefined ? undefined : Object.values(row)[0];
  }

  async run(sql: string, values: unknown[] = []): Promise<ResultSetHeader> {
    return (await this.connection.query<ResultSetHeader>(sql, values))[0];
  }

  get id(): number {
    return this.connection.threadId as number;
  }

  close(): void {
    this.connection.destroy();
  }
}
