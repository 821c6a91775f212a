// Statements that the server plans once per connection, and not each time: planning is most of what a short
// statement costs. Only on connections that are known to lead to one session of the server: behind a pooler
// the next statement may meet another session.

import { createHash } from "node:crypto";
import type { PgClient, Row } from "./connections.ts";

/**
 * Somebody has thrown the plan away (DISCARD ALL), or the table has changed: told before anything was done.
 */
const PLAN_GONE: readonly string[] = ["26000", "0A000"];
const NAME_LENGTH = 24;

export class Prepared {
  /**
   * Whether a connection leads to the session whose number it was told at its start; asked on its first use.
   */
  readonly #direct = new WeakMap<PgClient, boolean>();
  /** A statement that sets what our own sessions need; null where the sessions are the caller's. */
  ownSession: string | null = null;
  /** Those that have run it. */
  readonly #set = new WeakSet<PgClient>();
  readonly #names = new Map<string, string>();

  async query(
    client: PgClient,
    text: string,
    values: readonly unknown[],
  ): Promise<{ readonly rows: readonly Row[] }> {
    // Without values it may be several statements, which cannot be prepared.
    if (values.length === 0) return client.query({ text });
    const direct = this.#direct.get(client) ?? (await this.#ask(client));
    if (!direct) return client.query({ text, values });
    if (this.ownSession !== null && !this.#set.has(client)) {
      await client.query({ text: this.ownSession });
      this.#set.add(client);
    }
    try {
      return await client.query({ name: this.#name(text), text, values });
    } catch (error) {
      if (!this.isPlanGone(client, error)) throw error;
      return client.query({ text, values });
    }
  }

  /**
   * The name of a prepared statement, null where it must not be prepared, undefined where that is not known
   * yet.
   */
  nameOf(client: PgClient, text: string): string | null | undefined {
    const direct = this.#direct.get(client);
    if (direct === false) return null;
    const isKnown = direct === true && (this.ownSession === null || this.#set.has(client));
    return isKnown ? this.#name(text) : undefined;
  }

  /** Whether its session has the settings of our own sessions. */
  isOwn(client: PgClient): boolean {
    return this.#set.has(client);
  }

  /** Whether this error says that the plan is gone. Nothing is prepared on this connection from then on. */
  isPlanGone(client: PgClient, error: unknown): boolean {
    if (!PLAN_GONE.includes(codeOf(error))) return false;
    this.#direct.set(client, false);
    this.#set.delete(client);
    return true;
  }

  /** The number of the session that a connection leads to. */
  learn(client: PgClient, pid: number): boolean {
    const told = client.processID ?? null;
    const direct = told !== null && told === pid;
    this.#direct.set(client, direct);
    return direct;
  }

  async #ask(client: PgClient): Promise<boolean> {
    const { rows } = await client.query({ text: "SELECT pg_backend_pid()::text AS pid" });
    return this.learn(client, Number(rows[0]?.["pid"]));
  }

  #name(text: string): string {
    const known = this.#names.get(text);
    if (known !== undefined) return known;
    const name = `holdfast_${createHash("sha256").update(text).digest("hex").slice(0, NAME_LENGTH)}`;
    this.#names.set(text, name);
    return name;
  }
}

function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" ? code : "";
}
