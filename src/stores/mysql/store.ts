// The contract on the lease table: one method per call. An uncontended lock is one statement to take and one
// to release it; everything else is one procedure call, which decides under the server's clock
// (procedures.sql).

import { isUnsent, InvalidArgumentError, type LockError, markUnsent } from "../../core/errors.ts";
import { showKey } from "../../core/key.ts";
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
import type { System } from "../../core/system.ts";
import { abandonEach } from "../shared/abandon-each.ts";
import { NEVER_ABORTED } from "../shared/never-aborted.ts";
import { Acquire } from "./acquire.ts";
import { Cleaner } from "./cleaner.ts";
import { loadMysql2, Mysql2Port } from "./client/mysql2.ts";
import { Pool } from "./client/pool.ts";
import type { MysqlPort } from "./client/port.ts";
import { PrimaryFinder } from "./client/primary-finder.ts";
import { closedError, mysqlError } from "./errors.ts";
import { mysqlGuarantees, mysqlSeveralGuarantees } from "./guarantees.ts";
import { readFacts, tableFindings } from "./health.ts";
import { Inspect } from "./inspect.ts";
import { Notifications } from "./notifications.ts";
import { OpenRequests } from "./open-requests.ts";
import type { Login } from "./options.ts";
import { renewAll } from "./renew.ts";
import { replaceOldTable, tableSchema } from "./schema.ts";
import { sql } from "./sql.ts";
import { Steps } from "./steps.ts";
import { TableTransaction, type TableTransactionDeps } from "./table-transaction.ts";

const TOKEN_LENGTH = 16;
const LONGEST_STORE_NAME = 64;
/** Of the few connections that a process has. */
const ABANDONED_AT_ONCE = 2;
const SEEN_EVERY_MS = 1_000;
/** For what is on its way between servers. */
const UNDER_WAY_MS = 1_000;

export interface TableOptions {
  /** Several hosts: no lease may be longer, and a new primary grants nothing for so long. */
  readonly maxTtlMs: number;
  /** False: tables and procedures are not made at run time. */
  readonly createSchema: boolean;
}

export async function openTable(login: Login, options: TableOptions, env: StoreEnv): Promise<OpenStore> {
  const port = new Mysql2Port(await loadMysql2(), login);
  return openTableOn(port, options, env);
}

/** The default grace is a tenth of the ttl. */
function longestGraceMs(maxTtlMs: number): number {
  return maxTtlMs / 10 + 1_000;
}

export async function openTableOn(
  port: MysqlPort,
  { maxTtlMs, createSchema }: TableOptions,
  env: StoreEnv,
): Promise<OpenStore> {
  const holdMs = maxTtlMs + longestGraceMs(maxTtlMs) + UNDER_WAY_MS;
  const pool = new Pool(new PrimaryFinder(port, tableSchema(createSchema), holdMs), env.system);
  try {
    await pool.use((connection) => replaceOldTable(connection, createSchema), { signal: NEVER_ABORTED });
    const several = port.hosts.length > 1;
    const store = new MysqlStore(pool, env, { several, maxTtlMs: several ? maxTtlMs : Infinity });
    await store.start();
    return store;
  } catch (error) {
    pool.close();
    throw mysqlError(error, "be opened");
  }
}

class MysqlStore implements OpenStore<null> {
  readonly guarantees: Guarantees;
  readonly direct: DirectCalls<null>;
  readonly #pool: Pool;
  readonly #system: System;
  readonly #limits: { readonly several: boolean; readonly maxTtlMs: number };
  readonly #requests: OpenRequests;
  readonly #steps: Steps;
  readonly #acquire: Acquire;
  readonly #inspect: Inspect;
  readonly #notifications: Notifications;
  readonly #cleaner: Cleaner;
  readonly #transactionLocks: TableTransactionDeps["locked"] = new WeakMap();
  #seenMs = 0;
  #isClosed = false;

  constructor(pool: Pool, env: StoreEnv, limits: { readonly several: boolean; readonly maxTtlMs: number }) {
    const { system, namespace } = env;
    const token = system.randomId().slice(0, TOKEN_LENGTH);
    const store = storeName(token, system.processLabel);
    this.guarantees = limits.several ? mysqlSeveralGuarantees : mysqlGuarantees;
    this.#pool = pool;
    this.#system = system;
    this.#limits = limits;
    this.#requests = new OpenRequests(() => system.monoMs());
    const { claimMs } = this.guarantees;
    this.#steps = new Steps({ pool, namespace, store, claimMs }, () => this.#noteSeen());
    this.#notifications = new Notifications(pool, store, token);
    this.#acquire = new Acquire({
      steps: this.#steps,
      system,
      isListening: () => this.#notifications.isListening,
    });
    this.#inspect = new Inspect(this.#steps);
    this.#cleaner = new Cleaner(pool, system);
    this.direct = this.#directCalls();
  }

  /** From then on this store can be woken, if it can be at all. */
  start(): Promise<void> {
    return this.#notifications.start();
  }

  attempt(request: Request, io: Io): Promise<AttemptAnswer<null>> {
    return this.#do("try for the lock", request.keys, async () => {
      this.#refuseTooLong(request.ttlMs, request);
      const open = this.#requests.begin(request);
      if (open === null) return { ended: true };
      const answer = await this.#acquire.attempt(request, open, io);
      this.#afterAttempt(request, answer);
      return answer;
    });
  }

  renew(items: readonly RenewItem<null>[], io: Io): Promise<readonly RenewAnswer[]> {
    return this.#do("renew the lease", items[0]?.request.keys ?? [], async () => {
      for (const { ttlMs, request } of items) this.#refuseTooLong(ttlMs, request);
      return items.length === 0 ? [] : renewAll(this.#steps, items, io);
    });
  }

  release(
    request: Request,
    _cookie: null,
    { lastFences }: ReleaseOptions,
    io: Io,
  ): Promise<"released" | "not-held"> {
    return this.#do("be told of the release", request.keys, async () => {
      const mayArrive = this.#requests.end(request);
      const held = await this.#acquire.release(request, lastFences, mayArrive, io);
      this.#requests.forget(request);
      return held ? "released" : "not-held";
    });
  }

  abandon(requests: readonly Request[], io: Io): Promise<readonly Request[]> {
    const abandon = (request: Request, once: Io): Promise<void> =>
      this.#do("be told that the request has ended", request.keys, async () => {
        await this.#acquire.release(request, null, this.#requests.end(request), once);
        this.#requests.forget(request);
      });
    return abandonEach(requests, io, abandon, ABANDONED_AT_ONCE);
  }

  forget(request: Request): void {
    this.#requests.forget(request);
  }

  /** Of the many calls of an outage only a few get a connection. */
  forgetUnsent(request: Request): boolean {
    if (!this.#requests.isUnsent(request)) return false;
    this.#requests.forget(request);
    return true;
  }

  async subscribe(request: Request, wake: () => void): Promise<() => void> {
    const off = this.#notifications.add(request.id, wake);
    await this.#notifications.start();
    return off;
  }

  onLoss(tell: (id: string, reason: LossReason, detail?: string) => void): () => void {
    return this.#notifications.onLoss(tell);
  }

  owns(request: Request, _cookie: null, io: Io): Promise<boolean> {
    return this.#do("be asked for the owner", request.keys, () => this.#inspect.owns(request, io));
  }

  note(request: Request, _cookie: null, note: Note, io: Io): Promise<void> {
    return this.#do("write the note", request.keys, () => this.#inspect.note(request, note, io));
  }

  inspect(key: string, io: Io): Promise<LockInfo | null> {
    return this.#do("be asked who holds the lock", [key], () => this.#inspect.inspect(key, io));
  }

  async *list(options: { readonly prefix: string; readonly limit: number }, io: Io): AsyncIterable<LockInfo> {
    const infos = this.#inspect.list(options, io)[Symbol.asyncIterator]();
    for (;;) {
      const next = await this.#do("list the locks", [], () => infos.next());
      if (next.done === true) return;
      yield next.value;
    }
  }

  revoke(key: string, options: RevokeOptions, io: Io): Promise<RevokeAnswer> {
    return this.#do("revoke the lock", [key], () => this.#inspect.revoke(key, options, io));
  }

  check(io: Io): Promise<readonly Finding[]> {
    return this.#do("be checked", [], async () => {
      const facts = await this.#pool.use(readFacts, io);
      const { isListening } = this.#notifications;
      return tableFindings(facts, { several: this.#limits.several, isListening });
    });
  }

  inTransaction(tx: unknown): TransactionDesk {
    const locks = new TableTransaction(tx, {
      steps: this.#steps,
      system: this.#system,
      locked: this.#transactionLocks,
      attempt: (request, io) => {
        this.#refuseTooLong(request.ttlMs, request);
        return this.#acquire.attemptAtOnce(request, io);
      },
    });
    return {
      attempt: (wish, io) => this.#do("lock in the transaction", wish.keys, () => locks.attempt(wish, io)),
    };
  }

  close(): Promise<void> {
    this.#isClosed = true;
    this.#notifications.close(() => this.#pool.close());
    return Promise.resolve();
  }

  #directCalls(): DirectCalls<null> {
    return {
      attempt: (request, settle) => {
        const open = this.#isClosed || this.#limits.several ? null : this.#requests.begin(request);
        if (open === null) return this.#attemptLater(request, settle);
        this.#acquire.attemptDirect(request, open, (error, answer) => {
          if (answer !== null) this.#afterAttempt(request, answer);
          settle(answer === null ? this.#told(error, "try for the lock", request.keys) : null, answer);
        });
      },
      release: (request, _cookie, lastFence, settle) => {
        const mayArrive = this.#requests.end(request);
        this.#acquire.releaseDirect(request, lastFence, mayArrive, (error, held) => {
          if (held === null) return settle(this.#told(error, "be told of the release", request.keys), null);
          this.#requests.forget(request);
          settle(null, held ? "released" : "not-held");
        });
      },
    };
  }

  /**
   * A direct attempt that is none: the store is closed, the request has ended, or there are several hosts.
   */
  #attemptLater(request: Request, settle: Parameters<DirectCalls<null>["attempt"]>[1]): void {
    const timeout = this.#acquire.withTimeout(request, (io) => this.attempt(request, io));
    timeout.then(
      (answer) => settle(null, answer),
      (error: unknown) => settle(error, null),
    );
  }

  #afterAttempt(request: Request, answer: AttemptAnswer<null>): void {
    // The statement of an attempt without a place in the queue is over with its answer.
    if ("ended" in answer || ("busy" in answer && !request.queue)) this.#requests.forget(request);
    if ("busy" in answer && !this.#notifications.isListening) void this.#notifications.start();
    this.#cleaner.cleanIfDue();
  }

  /** With several servers no lease may outlast the pause of a new primary. */
  #refuseTooLong(ttlMs: number, { keys, graceMs }: Request): void {
    const { maxTtlMs } = this.#limits;
    const mostGraceMs = longestGraceMs(maxTtlMs);
    if (ttlMs <= maxTtlMs && graceMs <= mostGraceMs) return;
    throw new InvalidArgumentError(
      `the lease of ${showKey(keys[0] as string)} would last ${ttlMs} ms and ${graceMs} ms of grace: ` +
        `with several hosts at most ${maxTtlMs} ms (maxTtl) and ${mostGraceMs} ms, ` +
        "because a new primary waits for so long",
      { key: keys[0] },
    );
  }

  /** Tells the clients of other servers that this primary works. Nobody waits for it. */
  #noteSeen(): void {
    if (!this.#limits.several) return;
    const nowMs = this.#system.monoMs();
    if (nowMs - this.#seenMs < SEEN_EVERY_MS) return;
    this.#seenMs = nowMs;
    const call = { signal: NEVER_ABORTED };
    this.#pool
      .primary(call)
      .then(({ facts }) => this.#pool.run(sql["primary_heartbeat"], [facts.server], call))
      .catch(() => {});
  }

  async #do<T>(doing: string, keys: readonly string[], run: () => Promise<T>): Promise<T> {
    if (this.#isClosed) throw closedError(keys[0]);
    try {
      return await run();
    } catch (error) {
      throw this.#told(error, doing, keys);
    }
  }

  #told(error: unknown, doing: string, keys: readonly string[]): LockError {
    const told = mysqlError(error, doing, keys[0]);
    return isUnsent(error) ? markUnsent(told) : told;
  }
}

/** Random, and then who it is, for people. */
function storeName(token: string, processLabel: string): string {
  return `${token}@${processLabel.replaceAll(/[^\x20-\x7e]/g, "?")}`.slice(0, LONGEST_STORE_NAME);
}
