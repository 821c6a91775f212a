// What all calls of one opened store share: connections, statements, names, and how a call of a function is
// sent.

import { isUnsent, markUnsent, StoreUnavailableError } from "../../core/errors.ts";
import type { Io, StoreEnv } from "../../core/store.ts";
import type { System } from "../../core/system.ts";
import type { CallContext } from "../shared/retry-while-unsent.ts";
import { damagedRow } from "../shared/record-validation.ts";
import type { Connections } from "./client/connections.ts";
import { damagedName, isUndone, postgresError } from "./errors.ts";
import { channelOf, newProc, RowNames, showText } from "./names.ts";
import { Notifications } from "./notifications.ts";
import type { Sql } from "./sql.ts";

/** Between two tries of a call that the server undid. */
const LONGEST_PAUSE_MS = 16;

export type FunctionName =
  | "attempt"
  | "attempt_one"
  | "release"
  | "release_one"
  | "abandon"
  | "renew"
  | "owns"
  | "note"
  | "inspect"
  | "revoke"
  | "clean";

/** Completes "PostgreSQL could not". */
const DOING: Readonly<Record<FunctionName, string>> = {
  attempt: "acquire the lock",
  attempt_one: "acquire the lock",
  release: "release the lock",
  release_one: "release the lock",
  abandon: "end the request",
  renew: "renew the lease",
  owns: "tell who holds the lock",
  note: "write the note",
  inspect: "inspect the lock",
  revoke: "revoke the lock",
  clean: "delete unused rows",
};

export class Context {
  readonly connections: Connections;
  readonly sql: Sql;
  readonly system: System;
  readonly namespace: string;
  readonly names: RowNames;
  readonly proc: string;
  readonly notifications: Notifications;
  readonly #utf8: boolean;
  isClosed = false;

  constructor(connections: Connections, sql: Sql, utf8: boolean, env: StoreEnv) {
    this.connections = connections;
    this.sql = sql;
    this.#utf8 = utf8;
    this.system = env.system;
    this.namespace = env.namespace;
    this.names = new RowNames(env.namespace);
    this.proc = newProc(env.system);
    this.notifications = new Notifications(connections, env.system, channelOf(this.proc));
  }

  show(text: string): string {
    return showText(text, this.#utf8);
  }

  refuseClosed(key?: string): void {
    if (this.isClosed)
      throw new StoreUnavailableError("the postgres store is closed", { key, retryable: false });
  }

  /** Calls a function and gives its answer. A call that the server undid is repeated. */
  async call(
    name: FunctionName,
    keys: readonly string[],
    values: readonly unknown[],
    io: Pick<Io, "sleep"> & CallContext,
  ): Promise<string | null> {
    this.refuseClosed(keys[0]);
    try {
      for (let pauseMs = 1; ; pauseMs = Math.min(LONGEST_PAUSE_MS, 2 * pauseMs)) {
        try {
          const rows = await this.connections.query(this.sql[name], values, io);
          return rows[0]?.["answer"] ?? null;
        } catch (error) {
          if (!isUndone(error) || io.signal.aborted) throw error;
        }
        await io.sleep(pauseMs * this.system.random());
      }
    } catch (error) {
      throw this.errorOf(error, name, keys);
    }
  }

  errorOf(error: unknown, name: FunctionName, keys: readonly string[]): Error {
    return this.namedError(error, DOING[name], keys);
  }

  /** `doing` completes "PostgreSQL could not". */
  namedError(error: unknown, doing: string, keys: readonly string[]): Error {
    const damaged = damagedName(error);
    if (damaged !== null) {
      const key = keys.find((one) => this.names.of(one).digest.toString("hex") === damaged);
      return damagedRow(key ?? keys[0] ?? damaged, error);
    }
    const named = postgresError(error, doing, keys[0]);
    return isUnsent(error) ? markUnsent(named) : named;
  }
}
