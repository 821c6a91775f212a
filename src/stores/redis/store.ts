// The contract on Redis. Every call is one atomic step of one node under that node's clock (commands/). The
// store never waits: if it does not know an outcome, it throws.

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
} from "../../core/store.ts";
import { abandonEach } from "../shared/abandon-each.ts";
import { LockError, UnsafeStoreError } from "../../core/errors.ts";
import type { System } from "../../core/system.ts";
import { NEVER_ABORTED } from "../shared/never-aborted.ts";
import { batchesOf, slotIsMoving } from "./commands/batches.ts";
import { type Commands, type CommandsEnv } from "./commands/commands.ts";
import { findProblems, mayRunScripts, missingSubscription, rejectUnsafe, vet } from "./health.ts";
import { closedError, redisError, sessionError } from "./errors.ts";
import { guaranteesFor, type Settings } from "./guarantees.ts";
import type { TopologyEnv } from "./topology/node-connection.ts";
import { scanKeys } from "./inspect.ts";
import { RedisKeys } from "./commands/keys.ts";
import { Notifications } from "./notifications.ts";
import { OpenRequests } from "./commands/open-requests.ts";
import type { CallContext, RedisPort } from "./client/port.ts";
import { ScriptCommands } from "./commands/script-commands.ts";

/** More leases in one step would keep the server from other work for too long. */
const RENEWED_AT_ONCE = 100;
const INSPECTED_AT_ONCE = 100;
/** Enough to distinguish a handful of processes. */
const PROC_LENGTH = 16;
/** How long core waits for a direct call, which has a third of the ttl. */
const SHORTEST_CALL_MS = 50;
const LONGEST_CALL_MS = 2_000;
/** Core keeps the deadline of a direct call. */
const OPENING: CallContext = { signal: NEVER_ABORTED };
const PLAIN: Settings = { topology: "node", replicas: 0, scripts: true };

export class RedisOpenStore implements OpenStore<null> {
  readonly guarantees: Guarantees;
  readonly #port: RedisPort;
  readonly #env: StoreEnv;
  readonly #names: RedisKeys;
  readonly #notifications: Notifications;
  readonly #commands: Commands;
  readonly #requests: OpenRequests;
  readonly direct?: DirectCalls<null>;
  readonly #replicas: number;
  #closed = false;

  private constructor(env: StoreEnv, shared: CommandsEnv, commands: Commands, guarantees: Guarantees) {
    this.guarantees = guarantees;
    this.#env = env;
    this.#port = shared.port;
    this.#names = shared.names;
    this.#replicas = shared.replicas;
    this.#commands = commands;
    this.#requests = new OpenRequests(() => env.system.monoMs());
    this.#notifications = new Notifications(shared.port, shared.names.channels + shared.proc);
    if (commands instanceof ScriptCommands && commands.fastPath !== null)
      this.direct = directCalls(commands, commands.fastPath, this.#requests, env.system);
  }

  static async open(
    connect: (topologyEnv: TopologyEnv) => RedisPort | Promise<RedisPort>,
    env: StoreEnv,
    settings: Settings = PLAIN,
  ): Promise<RedisOpenStore> {
    let port: RedisPort | null = null;
    try {
      port = await connect({ vet: (node) => vet(node, env.allow), system: env.system });
      const [scripts] = await Promise.all([
        settings.scripts && mayRunScripts(port),
        rejectUnsafe(port, env.allow),
      ]);
      if (port.dedicate === undefined && (settings.replicas > 0 || !scripts)) throw sessionError();
      const proc = env.system.randomId().slice(0, PROC_LENGTH);
      const names = new RedisKeys(env.namespace);
      const shared = { port, names, proc, system: env.system, replicas: settings.replicas };
      const Way = scripts
        ? ScriptCommands
        : (await import("./commands/transaction-commands.ts")).TransactionCommands;
      const store = new RedisOpenStore(env, shared, new Way(shared), guaranteesFor({ ...settings, scripts }));
      await Promise.all([store.#notifications.start(), store.#commands.prepare?.(OPENING)]);
      return store;
    } catch (error) {
      await port?.close();
      throw redisError(error, "be opened");
    }
  }

  async attempt(request: Request, io: Io): Promise<AttemptAnswer<null>> {
    this.#refuseClosed(request.keys[0]);
    const open = this.#requests.begin(request);
    if (open === null) return { ended: true };
    const answer = await this.#commands.attempt(request, open, io);
    if (isOver(request, answer)) this.#requests.ended(request.id);
    return answer;
  }

  async renew(items: readonly RenewItem<null>[], io: Io): Promise<readonly RenewAnswer[]> {
    this.#refuseClosed(items[0]?.request.keys[0]);
    const batches = batchesOf(
      items.length,
      RENEWED_AT_ONCE,
      this.#slots((at) => items[at]?.request.keys[0]),
    );
    if (batches.length === 1) return this.#renewTogether(items, io);
    const answers: RenewAnswer[] = [];
    await Promise.all(
      batches.map(async (batch) => {
        const some = batch.map((at) => items[at] as RenewItem<null>);
        const given = await this.#renewTogether(some, io).catch((cause: unknown) =>
          some.map((): RenewAnswer => ({ state: "unknown", cause })),
        );
        for (const [i, at] of batch.entries()) answers[at] = given[i] ?? { state: "unknown" };
      }),
    );
    return answers;
  }

  async release(
    request: Request,
    _cookie: null,
    options: ReleaseOptions,
    io: Io,
  ): Promise<"released" | "not-held"> {
    const held = await this.#end(request, options.lastFences.map(String), io);
    this.#requests.ended(request.id);
    return held ? "released" : "not-held";
  }

  /** The commands leave together, so that many requests cost one round trip. */
  abandon(requests: readonly Request[], io: Io): Promise<readonly Request[]> {
    return abandonEach(requests, io, async (request) => {
      await this.#end(request, [], io);
      this.#requests.ended(request.id);
    });
  }

  forget(request: Request): void {
    this.#requests.ended(request.id);
  }

  subscribe(request: Request, wake: () => void): Promise<() => void> {
    return this.#notifications.wake(request.id, wake);
  }

  onLoss(report: (id: string, reason: LossReason, detail?: string) => void): () => void {
    return this.#notifications.onLoss(report);
  }

  async owns(request: Request, _cookie: null, io: Io): Promise<boolean> {
    this.#refuseClosed(request.keys[0]);
    return this.#commands.owns(request, io);
  }

  async note(request: Request, _cookie: null, note: Note, io: Io): Promise<void> {
    this.#refuseClosed(request.keys[0]);
    await this.#commands.note(request, note, io);
  }

  async inspect(key: string, io: Io): Promise<LockInfo | null> {
    this.#refuseClosed(key);
    const [info = null] = await this.#commands.inspect([key], io);
    if (info instanceof LockError) throw info;
    return info;
  }

  async *list(options: { readonly prefix: string; readonly limit: number }, io: Io): AsyncIterable<LockInfo> {
    let left = options.limit;
    const pages = scanKeys(this.#port, this.#names, options.prefix, io)[Symbol.asyncIterator]();
    const next = (): Promise<IteratorResult<string[]>> => this.#named("list the locks", () => pages.next());
    for (let page = await next(); page.done !== true; page = await next()) {
      for (const info of await this.#inspectMany(page.value, io)) {
        if (left <= 0) return;
        left -= 1;
        yield info;
      }
      if (left <= 0) return;
    }
  }

  async revoke(key: string, options: RevokeOptions, io: Io): Promise<RevokeAnswer> {
    this.#refuseClosed(key);
    return this.#commands.revoke(key, options, io);
  }

  async check(io: Io): Promise<readonly Finding[]> {
    try {
      const found = await findProblems(this.#port, this.#replicas, io, () => this.#env.system.monoMs());
      return [...found, ...missingSubscription(this.#notifications.failure)];
    } catch (error) {
      throw redisError(error, "be checked");
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    const listening = this.#notifications.close();
    await this.#port.close();
    await listening;
  }

  /** Leases whose keys one script can reach. */
  async #renewTogether(items: readonly RenewItem<null>[], io: Io): Promise<readonly RenewAnswer[]> {
    const alone = (item: RenewItem<null>): Promise<RenewAnswer[]> =>
      this.#commands.renew([item], io).catch((cause: unknown) => [{ state: "unknown", cause }]);
    return runTogether(
      items,
      () => this.#commands.renew(items, io),
      async () => (await Promise.all(items.map(alone))).flat(),
    );
  }

  async #end(request: Request, used: readonly string[], io: Io): Promise<boolean> {
    this.#refuseClosed(request.keys[0]);
    const fences = request.keys.map((_key, at) => used[at] ?? "");
    return this.#commands.end(request, fences, this.#requests.end(request.id), io);
  }

  async #inspectMany(keys: readonly string[], io: Io): Promise<LockInfo[]> {
    const batches = batchesOf(
      keys.length,
      INSPECTED_AT_ONCE,
      this.#slots((at) => keys[at]),
    );
    const found = await Promise.all(
      batches.map(async (batch) => {
        const some = batch.map((at) => keys[at] as string);
        const alone = (key: string): Promise<(LockInfo | LockError | null)[]> =>
          this.#commands.inspect([key], io);
        return runTogether(
          some,
          () => this.#commands.inspect(some, io),
          async () => (await Promise.all(some.map((key) => alone(key).catch(damagedOnly)))).flat(),
        );
      }),
    );
    // `inspect` reports a damaged record. A list passes over it.
    return found.flat().filter((info): info is LockInfo => info !== null && !LockError.is(info));
  }

  /** The slot of the key at a position; null unless this is a Cluster. */
  #slots(keyAt: (at: number) => string | undefined): ((at: number) => number | undefined) | null {
    const port = this.#port;
    if (port.slotOf === undefined) return null;
    return (at) => port.slotOf?.(this.#names.record(keyAt(at) ?? ""));
  }

  async #named<T>(doing: string, run: () => Promise<T>): Promise<T> {
    this.#refuseClosed();
    try {
      return await run();
    } catch (error) {
      throw redisError(error, doing);
    }
  }

  #refuseClosed(key?: string): void {
    if (this.#closed) throw closedError(key);
  }
}

/** No attempt with this id follows. */
function isOver(request: Request, answer: AttemptAnswer<null>): boolean {
  return "ended" in answer || ("busy" in answer && !request.queue);
}

/** Calls of plain locks without promises, signals and timers of their own. */
function directCalls(
  commands: ScriptCommands,
  fastPath: NonNullable<ScriptCommands["fastPath"]>,
  requests: OpenRequests,
  system: System,
): DirectCalls<null> {
  const sleep = (ms: number): Promise<void> => new Promise((resolve) => void system.after(ms, resolve));
  let call: CallContext & { readonly timeoutMs: number } = { signal: NEVER_ABORTED, timeoutMs: 0, sleep };
  const callOf = ({ ttlMs }: Request): typeof call => {
    const timeoutMs = Math.min(LONGEST_CALL_MS, Math.max(SHORTEST_CALL_MS, ttlMs / 3));
    if (call.timeoutMs !== timeoutMs) call = { signal: NEVER_ABORTED, timeoutMs, sleep };
    return call;
  };
  return {
    attempt(request, settle) {
      const open = requests.begin(request);
      if (open === null) return process.nextTick(settle, null, { ended: true });
      fastPath.attempt(request, open, callOf(request), (error, answer) => {
        if (answer !== null && isOver(request, answer)) requests.ended(request.id);
        settle(error, answer);
      });
    },
    release(request, _cookie, lastFence, settle) {
      const lateUntilMs = requests.end(request.id);
      const answer = (error: unknown, held: boolean | null): void => {
        if (held === true && lateUntilMs === 0) requests.released(request.id);
        else if (held !== null) requests.ended(request.id);
        settle(error, held === null ? null : held ? "released" : "not-held");
      };
      if (lateUntilMs === 0) return fastPath.release(request, String(lastFence), callOf(request), answer);
      commands.endAlone(request, [String(lastFence)], lateUntilMs, callOf(request)).then(
        (held) => answer(null, held),
        (error: unknown) => answer(error, null),
      );
    },
  };
}

/** Works on many keys at once, or on each alone if one of them makes the rest fail. */
async function runTogether<T>(
  all: readonly unknown[],
  run: () => Promise<T>,
  oneByOne: () => Promise<T>,
): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if (all.length === 1 || !(slotIsMoving(error) || error instanceof UnsafeStoreError)) throw error;
    return oneByOne();
  }
}

function damagedOnly(error: unknown): LockError[] {
  if (error instanceof UnsafeStoreError) return [error];
  throw error;
}
