// The slice of a MySQL client that the store needs, as an interface of our own. It never retries and never
// reconnects: a connection that has ended is thrown away.

/** What MySQL and MariaDB say differently. */
export type Dialect = "mariadb" | "mysql";

export type Value = string | number | null | Uint8Array;

export type Row = Readonly<Record<string, unknown>>;

export interface Answer {
  readonly rows: readonly Row[];
  /** How many rows a change has met, whether it changed them or not. */
  readonly met: number;
  /** What LAST_INSERT_ID(expression) was, or 0. */
  readonly insertId: number;
}

/** Called once. Without an error there is an answer. */
export type Settle = (error: unknown, answer: Answer | null) => void;

export interface SqlConnection {
  /** False once it has ended, for whatever reason. */
  readonly alive: boolean;
  /**
   * One statement. Statements of one connection run one after another. Rejects with the client's own error.
   */
  run(sql: string, values?: readonly Value[]): Promise<Answer>;
  /** As `run`, without a promise. */
  send(sql: string, values: readonly Value[], settle: Settle): void;
  ping(): Promise<void>;
  /** Hears of an end that was not asked for, at once if it has happened already. */
  onEnd(listener: (error: Error) => void): void;
  /** At once, whatever is under way. */
  destroy(): void;
  /** Does not keep the process alive from now on. */
  unref(): void;
}

export interface Address {
  readonly host: string;
  readonly port: number;
  /** A Unix socket, which is used instead. */
  readonly socketPath?: string;
}

export interface MysqlPort {
  /** The servers in the order of preference. */
  readonly hosts: readonly Address[];
  /** A session with the settings of session-settings.ts: every statement is a transaction of its own. */
  connect(host: Address): Promise<SqlConnection>;
  /** Ends every connection, also those that are in use or being made. */
  close(): void;
}

/** A column as text; binary columns arrive as bytes. */
export function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  if (value instanceof Uint8Array) return Buffer.from(value).toString();
  return typeof value === "number" || typeof value === "bigint" ? String(value) : "";
}
