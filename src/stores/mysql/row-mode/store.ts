// The contract in row mode: SELECT ... FOR UPDATE on a connection of its own. The lock is the server's: it
// ends with the transaction or with the connection, whatever becomes of the client. What is written beside it
// (fences, holders) is for numbers and for people, and decides nothing.

import type {
  AttemptAnswer,
  Busy,
  Finding,
  Grant,
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
} from "../../../core/store.ts";
import { toBusy } from "../../shared/busy.ts";
import { abandonEach } from "../../shared/abandon-each.ts";
import type { System } from "../../../core/system.ts";
import { EndedIds } from "../../shared/ended-ids.ts";
import { BLOCK, terminate, wake as wakeStore, WakeupSession } from "../wakeup-session.ts";
import { closedError, codeOf, mysqlError, NO_SUCH_TABLE } from "../errors.ts";
import { mysqlRowGuarantees, ROW_POLL_MS } from "../guarantees.ts";
import { NEVER_ABORTED } from "../../shared/never-aborted.ts";
import { ReconnectingConnection, type StatementCall } from "../client/connection.ts";
import { RowMetadata } from "./metadata.ts";
import { RowSessions } from "./sessions.ts";
import { RowTransaction } from "./transaction.ts";
import { RowRequests } from "./requests.ts";
import { idleSeconds, type RowRequest } from "./request.ts";
import { readFacts, refuseForRows, rowFindings, type ServerFacts } from "../health.ts";
import { loadMysql2, Mysql2Port } from "../client/mysql2.ts";
import type { Address, MysqlPort, SqlConnection } from "../client/port.ts";
import type { Login } from "../options.ts";
import { rowSchema } from "../schema.ts";

const PROC_LENGTH = 16;
/** A waiter that asks again is answered at once if the row comes to it within so long. */
const LINGER_MS = 250;

export interface RowOptions {
  /** Sessions that hold or wait for a row, at most. */
  readonly maxConnections: number;
  /** False: tables are not made at run time. */
  readonly createSchema: boolean;
}

export async function openRows(login: Login, options: RowOptions, env: StoreEnv): Promise<OpenStore> {
  const port = new Mysql2Port(await loadMysql2(), login);
  const [host] = port.hosts as readonly [Address];
  const connect = (): Promise<SqlConnection> => port.connect(host);
  const schema = rowSchema(options.createSchema);
  let first: SqlConnection | null = null;
  try {
    first = await connect();
    const facts = await readFacts(first);
    refuseForRows(facts);
    await schema.create(first);
    const remakeTables = async (): Promise<void> => {
      const one = await connect();
      await schema.create(one).finally(() => one.destroy());
    };
    const connection = new ReconnectingConnection(connect, () => env.system.monoMs(), first);
    const { maxConnections } = options;
    return new RowOpenStore({ connection, facts, port, connect, remakeTables, maxConnections }, env);
  } catch (error) {
    first?.destroy();
    throw mysqlError(error, "be opened");
  }
}

export interface RowParts {
  readonly connection: ReconnectingConnection;
  readonly facts: ServerFacts;
  readonly port: MysqlPort;
  readonly connect: () => Promise<SqlConnection>;
  readonly remakeTables: () => Promise<void>;
  readonly maxConnections: number;
}

export class RowOpenStore implements OpenStore<null> {
  readonly guarantees: Guarantees = mysqlRowGuarantees;
  readonly #connection: ReconnectingConnection;
  readonly #port: MysqlPort;
  readonly #facts: ServerFacts;
  readonly #remakeTables: () => Promise<void>;
  readonly #metadata: RowMetadata;
  readonly #requests: RowRequests;
  readonly #wakeupSession: WakeupSession;
  readonly #ended = new EndedIds();
  readonly #system: System;
  readonly #proc: string;
  /** For what no caller waits for. */
  readonly #alone: StatementCall;
  #tellLoss: ((id: string, reason: LossReason, detail?: string) => void) | null = null;
  readonly #wakes = new Map<string, () => void>();
  #closed = false;

  constructor(parts: RowParts, env: StoreEnv) {
    const { connection, facts, port, connect, remakeTables, maxConnections } = parts;
    const { namespace, system } = env;
    this.#connection = connection;
    this.#port = port;
    this.#facts = facts;
    this.#remakeTables = remakeTables;
    this.#system = system;
    const proc = system.randomId().slice(0, PROC_LENGTH);
    this.#proc = proc;
    this.#alone = { signal: NEVER_ABORTED, sleep: () => system.yield() };
    this.#metadata = new RowMetadata(connection, { namespace, proc, process: system.processLabel });
    const sessions = new RowSessions({ connect, dialect: facts.dialect, connection, system, maxConnections });
    this.#requests = new RowRequests(sessions, this.#metadata, {
      woken: ({ request }) => this.#wakes.get(request.id)?.(),
      lost: ({ request }) =>
        this.#tellLoss?.(request.id, "session", "its connection to the server has ended"),
    });
    this.#wakeupSession = new WakeupSession(proc, {
      connect,
      block: (name) => connection.run(BLOCK, [name], this.#alone),
      onWake: () => void this.#readRevocations(),
    });
    void this.#wakeupSession.start();
  }

  attempt(request: Request, io: Io): Promise<AttemptAnswer<null>> {
    return this.#do("try for the lock", request.keys[0], async () => {
      if (this.#ended.has(request.id)) return { ended: true };
      void this.#wakeupSession.start();
      const rowRequest = this.#requests.of(request);
      const answer = await rowRequest.serially(() =>
        this.#requests.guarded(rowRequest, io, () => this.#ask(rowRequest, request, io)),
      );
      if ("busy" in answer && !request.queue) this.#end(request);
      return answer;
    });
  }

  renew(items: readonly RenewItem<null>[], io: Io): Promise<readonly RenewAnswer[]> {
    return this.#do("renew the lease", items[0]?.request.keys[0], async () => {
      if (items.length === 0) return [];
      void this.#wakeupSession.start();
      const [revoked, alive] = await Promise.all([
        this.#metadata.revoked(io),
        Promise.all(items.map((item) => this.#requests.keep(item, io))),
      ]);
      return items.map(({ request, ttlMs }, at): RenewAnswer => {
        const rowRequest = this.#requests.held(request.id);
        const reason = rowRequest === null ? undefined : revoked.get(rowRequest.session?.token ?? "");
        if (reason !== undefined) return { state: "lost", reason: "revoked", detail: reason };
        if (alive[at] === true) return { state: "renewed", validMs: ttlMs };
        return { state: "lost", reason: rowRequest === null ? "gone" : "session" };
      });
    });
  }

  release(
    request: Request,
    _cookie: null,
    { lastFences }: ReleaseOptions,
    io: Io,
  ): Promise<"released" | "not-held"> {
    return this.#do("be told of the release", request.keys[0], async () => {
      this.#end(request);
      const used = lastFences[0] === undefined ? null : Number(lastFences[0]);
      return (await this.#requests.release(request.id, used, io)) ? "released" : "not-held";
    });
  }

  abandon(requests: readonly Request[], io: Io): Promise<readonly Request[]> {
    return abandonEach(requests, io, (request) =>
      this.#do("forget the request", request.keys[0], () => {
        this.#end(request);
        return this.#requests.forget(request.id, io);
      }),
    );
  }

  forget(request: Request): void {
    this.#end(request);
    this.#requests.drop(request.id);
  }

  subscribe(request: Request, wake: () => void): Promise<() => void> {
    this.#wakes.set(request.id, wake);
    return Promise.resolve(() => void this.#wakes.delete(request.id));
  }

  onLoss(tell: (id: string, reason: LossReason, detail?: string) => void): () => void {
    this.#tellLoss = tell;
    return () => {
      this.#tellLoss = null;
    };
  }

  owns(request: Request, _cookie: null, io: Io): Promise<boolean> {
    return this.#do("be asked for the owner", request.keys[0], async () => {
      const rowRequest = this.#requests.held(request.id);
      if (rowRequest?.session === null || rowRequest?.session === undefined) return false;
      const [revoked, alive] = await Promise.all([
        this.#metadata.revoked(io),
        this.#requests.alive(rowRequest, io),
      ]);
      return alive && !revoked.has(rowRequest.session.token);
    });
  }

  note(request: Request, _cookie: null, note: Note, io: Io): Promise<void> {
    return this.#do("write the note", request.keys[0], async () => {
      const token = this.#requests.held(request.id)?.session?.token;
      if (token !== undefined) await this.#metadata.note(request, token, note?.waitingFor ?? null, io);
    });
  }

  inspect(key: string, io: Io): Promise<LockInfo | null> {
    return this.#do("be asked who holds the lock", key, async () => {
      const holders = (await this.#metadata.read(key, io)).map(({ info }) => info);
      return holders.length === 0 ? null : { key, limit: 1, holders, waiters: null };
    });
  }

  async *list(options: { readonly prefix: string; readonly limit: number }, io: Io): AsyncIterable<LockInfo> {
    let left = options.limit;
    let after: Uint8Array = Buffer.alloc(0);
    for (;;) {
      const page = await this.#do("list the locks", undefined, () =>
        this.#metadata.list(options.prefix, after, io),
      );
      for (const key of page) {
        const info = left > 0 ? await this.inspect(key, io) : null;
        if (left <= 0) return;
        if (info === null) continue;
        left -= 1;
        yield info;
      }
      const last = page.at(-1);
      if (last === undefined) return;
      after = Buffer.from(last);
    }
  }

  revoke(key: string, { fence, reason, force }: RevokeOptions, io: Io): Promise<RevokeAnswer> {
    return this.#do("revoke the lock", key, async () => {
      const holders = await this.#metadata.read(key, io);
      if (holders.length === 0) return "free";
      const chosen = holders.filter((one) => fence === undefined || (one.fence <= fence && fence <= one.top));
      if (chosen.length === 0) return "other-fence";
      for (const one of chosen) {
        await this.#metadata.revoke(key, one, reason, io);
        await wakeStore(this.#connection, one.proc, io);
        if (force) await this.#requests.sessions.finishOff(one.session, io);
      }
      return "revoked";
    });
  }

  check(io: Io): Promise<readonly Finding[]> {
    return this.#do("be checked", undefined, async () => {
      await this.#metadata.clearDead(io);
      return rowFindings(this.#facts);
    });
  }

  inTransaction(tx: unknown): TransactionDesk {
    const { dialect } = this.#facts;
    const locks = new RowTransaction(tx, { connection: this.#connection, metadata: this.#metadata, dialect });
    return {
      attempt: (wish, io) => this.#do("lock in the transaction", wish.keys[0], () => locks.attempt(wish, io)),
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#wakeupSession.close();
    await this.#requests.close();
    this.#connection.close(
      (connection) => terminate(connection, this.#proc, this.#alone),
      () => this.#port.close(),
    );
  }

  async #ask(rowRequest: RowRequest, request: Request, io: Io): Promise<AttemptAnswer<null>> {
    rowRequest.request = request;
    if (rowRequest.state === "held") return this.#again(rowRequest, request, io);
    if (rowRequest.state === "new") await this.#requests.begin(rowRequest, io);
    else if (rowRequest.state === "waiting") {
      await Promise.race([rowRequest.waiting, io.sleep(Math.min(LINGER_MS, io.timeoutMs / 4))]);
    }
    // While it waited, the state may have become any other.
    const { state } = rowRequest as { state: RowRequest["state"] };
    if (state === "over" || this.#ended.has(request.id)) return { ended: true };
    if (state === "new") throw new Error("the wait for the row was broken off");
    if (state === "waiting") return { busy: await this.#busy(request, io) };
    await this.#requests.grant(rowRequest, io);
    return { granted: grantOf(rowRequest, request) };
  }

  /** It holds already: its answer was lost, or it asks again. */
  async #again(rowRequest: RowRequest, request: Request, io: Io): Promise<AttemptAnswer<null>> {
    const [revoked] = await Promise.all([
      this.#metadata.revoked(io),
      rowRequest.session?.keep(idleSeconds(request)),
    ]);
    if (revoked.has(rowRequest.session?.token ?? "")) return { ended: true };
    return { granted: grantOf(rowRequest, request) };
  }

  async #busy(request: Request, io: Io): Promise<Busy> {
    const holders = await this.#metadata.read(request.keys[0] as string, io);
    return toBusy(holders, ({ info }) => info, ROW_POLL_MS);
  }

  /** This store was woken: one of its holders was revoked. */
  async #readRevocations(): Promise<void> {
    try {
      const revoked = await this.#metadata.revoked(this.#alone);
      for (const rowRequest of this.#requests.allHeld()) {
        const reason = revoked.get(rowRequest.session?.token ?? "");
        if (reason !== undefined) this.#tellLoss?.(rowRequest.request.id, "revoked", reason);
      }
    } catch {
      // The next renewal asks again.
    }
  }

  #end(request: Request): void {
    this.#ended.add(request.id, this.#system.monoMs());
  }

  async #do<T>(doing: string, key: string | undefined, work: () => Promise<T>): Promise<T> {
    if (this.#closed) throw closedError(key);
    try {
      return await work();
    } catch (error) {
      if (codeOf(error) === NO_SUCH_TABLE) await this.#remakeTables().catch(() => {});
      throw mysqlError(error, doing, key);
    }
  }
}

function grantOf({ drawn }: RowRequest, { ttlMs }: Request): Grant<null> {
  if (drawn === null) throw new Error("a hold without a fence");
  return { fences: [BigInt(drawn.fence)], reservedFences: drawn.room, validMs: ttlMs, cookie: null };
}
