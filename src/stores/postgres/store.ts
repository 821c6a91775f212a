// The contract on tables of PostgreSQL. Every call is one statement that calls one function in the server,
// under the server's clock (sql/functions.sql). The store never waits: what it does not know it throws.

import { StoreUnavailableError } from "../../core/errors.ts";
import type {
  AttemptAnswer,
  DirectCalls,
  Finding,
  Guarantees,
  Io,
  LockInfo,
  LossReason,
  Note,
  OpenStore,
  ReleaseOptions,
  RenewAnswer,
  RenewItem,
  Request,
  RevokeAnswer,
  RevokeOptions,
  StoreEnv,
  TransactionDesk,
} from "../../core/store.ts";
import { Acquire } from "./acquire.ts";
import { Cleaner } from "./cleaner.ts";
import type { Connections } from "./client/connections.ts";
import { Context } from "./context.ts";
import { postgresGuarantees } from "./guarantees.ts";
import { findings, noPush } from "./health.ts";
import { inspect, listLocks, revoke } from "./inspect.ts";
import { renewAll } from "./renew.ts";
import { readHolders } from "./replies.ts";
import type { Sql } from "./sql.ts";
import { PostgresTransaction, refuseShared } from "./transaction.ts";

const STRICT =
  "the transaction does not see the row of this key, which was made after it began: begin it as READ " +
  "COMMITTED, or lock as its first statement";

export class PostgresStore implements OpenStore<null> {
  readonly guarantees: Guarantees = postgresGuarantees;
  readonly direct: DirectCalls<null>;
  readonly #context: Context;
  readonly #acquire: Acquire;
  readonly #cleaner: Cleaner;

  constructor(connections: Connections, sql: Sql, utf8: boolean, env: StoreEnv) {
    this.#context = new Context(connections, sql, utf8, env);
    this.#acquire = new Acquire(this.#context);
    this.#cleaner = new Cleaner(this.#context);
    const { direct } = this.#acquire;
    const sleep = (ms: number): Promise<void> => new Promise((resolve) => void env.system.after(ms, resolve));
    this.direct = {
      release: (...release) => direct.release(...release),
      attempt: (request, settle) => {
        direct.attempt(request, settle);
        this.#cleaner.run({ sleep });
      },
    };
  }

  /** Notifications may arrive from then on. */
  start(): Promise<void> {
    return this.#context.notifications.start();
  }

  attempt(request: Request, io: Io): Promise<AttemptAnswer<null>> {
    this.#cleaner.run(io);
    return this.#acquire.attempt(request, io);
  }

  async renew(items: readonly RenewItem<null>[], io: Io): Promise<readonly RenewAnswer[]> {
    return renewAll(this.#context, items, io);
  }

  release(
    request: Request,
    _cookie: null,
    options: ReleaseOptions,
    io: Io,
  ): Promise<"released" | "not-held"> {
    return this.#acquire.release(request, options.lastFences, io);
  }

  abandon(requests: readonly Request[], io: Io): Promise<readonly Request[]> {
    return this.#acquire.abandon(requests, io);
  }

  forget(request: Request): void {
    this.#acquire.forget(request);
  }

  /** Of the many calls of an outage only a few get a connection. */
  forgetUnsent(request: Request): boolean {
    return this.#acquire.forgetUnsent(request);
  }

  subscribe(request: Request, wake: () => void): Promise<() => void> {
    return this.#context.notifications.subscribe(request.id, wake);
  }

  onLoss(tell: (id: string, reason: LossReason, detail?: string) => void): () => void {
    return this.#context.notifications.onLoss(tell);
  }

  async owns({ keys, id }: Request, _cookie: null, io: Io): Promise<boolean> {
    return (await this.#context.call("owns", keys, [this.#digests(keys), id], io)) === "true";
  }

  async note({ keys, id }: Request, _cookie: null, note: Note, io: Io): Promise<void> {
    const text = note === null ? null : Buffer.from(note.waitingFor);
    await this.#context.call("note", keys, [this.#digests(keys), id, text], io);
  }

  inspect(key: string, io: Io): Promise<LockInfo | null> {
    return inspect(this.#context, key, io);
  }

  list(options: { readonly prefix: string; readonly limit: number }, io: Io): AsyncIterable<LockInfo> {
    return listLocks(this.#context, options, io);
  }

  revoke(key: string, options: RevokeOptions, io: Io): Promise<RevokeAnswer> {
    return revoke(this.#context, key, options, io);
  }

  async check(io: Io): Promise<readonly Finding[]> {
    const { connections, sql, notifications } = this.#context;
    this.#context.refuseClosed();
    try {
      return [...(await findings(connections, sql.settings, io)), ...noPush(notifications.failure)];
    } catch (error) {
      throw this.#context.namedError(error, "be checked", []);
    }
  }

  inTransaction(tx: unknown): TransactionDesk {
    const { names, namespace, notifications, sql } = this.#context;
    const locks = new PostgresTransaction(tx, async (query, key, mode) => {
      refuseShared(mode);
      const { digest, key: bytes } = names.of(key);
      const lock = async (): Promise<string | null> =>
        (await query(sql.transaction_lock, [digest]))[0]?.["answer"] ?? null;
      let answer = await lock();
      if (answer === null) {
        // Made beside the transaction: a row that it had made itself would keep others waiting who only look
        // for it. And beside the pool, which may have no other connection.
        await notifications.query(sql.transaction_row, [digest, namespace, bytes]);
        answer = await lock();
      }
      if (answer === null) throw new StoreUnavailableError(STRICT, { key, retryable: false });
      const text = answer.slice(2);
      return answer.startsWith("g") ? { fence: BigInt(text) } : { holders: readHolders(text) };
    });
    return {
      attempt: async (wish) => {
        this.#context.refuseClosed(wish.keys[0]);
        try {
          return await locks.attempt(wish);
        } catch (error) {
          throw this.#context.namedError(error, "lock in the transaction", wish.keys);
        }
      },
    };
  }

  async close(): Promise<void> {
    this.#context.isClosed = true;
    this.#context.notifications.close();
    await this.#context.connections.close();
  }

  #digests(keys: readonly string[]): readonly Buffer[] {
    return keys.map((key) => this.#context.names.of(key).digest);
  }
}
