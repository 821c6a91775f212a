// The contract on Redis. Every call is one atomic step of one node under that node's clock (steps.ts). A store
// never waits and never tries again: what it does not know it throws.

import type {
  AttemptAnswer,
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
} from "../../core/store.ts";
import { abandonEach } from "../shared/abandon-each.ts";
import { Turns } from "../shared/turns.ts";
import { LockError, UnsafeStoreError } from "../../core/errors.ts";
import { batchesOf, slotIsMoving } from "./batches.ts";
import { findings, mayRunScripts, noPush, refuseUnsafe, vet } from "./check.ts";
import { closedError, redisError, sessionError } from "./errors.ts";
import { guaranteesFor, type Settings } from "./guarantees.ts";
import type { Surroundings } from "./lane.ts";
import { Listener } from "./listener.ts";
import { keysWith } from "./listing.ts";
import { Names } from "./names.ts";
import type { RedisPort } from "./port.ts";
import { ScriptSteps } from "./script-steps.ts";
import type { Steps, StepsEnv } from "./steps.ts";

/** So many leases are renewed in one step; more would keep the server from other work for too long. */
const RENEWED_AT_ONCE = 100;
const LOOKED_AT_AT_ONCE = 100;
/** Enough to tell a handful of processes from each other. */
const PROC_LENGTH = 16;
const PLAIN: Settings = { topology: "node", replicas: 0, scripts: true };

export class RedisOpenStore implements OpenStore<null> {
  readonly guarantees: Guarantees;
  readonly #port: RedisPort;
  readonly #env: StoreEnv;
  readonly #names: Names;
  readonly #listener: Listener;
  readonly #steps: Steps;
  readonly #turns = new Turns();
  readonly #replicas: number;
  #closed = false;

  private constructor(env: StoreEnv, shared: StepsEnv, steps: Steps, guarantees: Guarantees) {
    this.guarantees = guarantees;
    this.#env = env;
    this.#port = shared.port;
    this.#names = shared.names;
    this.#replicas = shared.replicas;
    this.#steps = steps;
    this.#listener = new Listener(shared.port, shared.names.channels + shared.proc);
  }

  static async open(
    connect: (around: Surroundings) => RedisPort | Promise<RedisPort>,
    env: StoreEnv,
    settings: Settings = PLAIN,
  ): Promise<RedisOpenStore> {
    let port: RedisPort | null = null;
    try {
      port = await connect({ vet: (node) => vet(node, env.allow), system: env.system });
      const [scripts] = await Promise.all([
        settings.scripts && mayRunScripts(port),
        refuseUnsafe(port, env.allow),
      ]);
      if (port.session === undefined && (settings.replicas > 0 || !scripts)) throw sessionError();
      const proc = env.system.randomId().slice(0, PROC_LENGTH);
      const shared = { port, names: new Names(env.namespace), proc, replicas: settings.replicas };
      const Way = scripts ? ScriptSteps : (await import("./transaction-steps.ts")).TransactionSteps;
      const store = new RedisOpenStore(env, shared, new Way(shared), guaranteesFor({ ...settings, scripts }));
      await store.#listener.start();
      return store;
    } catch (error) {
      await port?.close();
      throw redisError(error, "be opened");
    }
  }

  async attempt(request: Request, io: Io): Promise<AttemptAnswer<null>> {
    this.#refuseClosed(request.keys[0]);
    const turn = this.#turns.number(request);
    if (turn === null) return { ended: true };
    const answer = await this.#steps.attempt(request, turn, () => this.#turns.oldestOpen(request), io);
    // Core has given it up meanwhile, and will not end it again.
    if (!this.#turns.isOpen(request)) this.#steps.forget?.(request);
    if ("ended" in answer || ("busy" in answer && !request.queue)) this.#turns.end(request);
    else if (!("unconfirmed" in answer)) this.#turns.answered(request);
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
    return held ? "released" : "not-held";
  }

  /** Their commands leave together, so that many cost one round trip. */
  abandon(requests: readonly Request[], io: Io): Promise<readonly Request[]> {
    return abandonEach(requests, io, (request) => this.#end(request, [], io));
  }

  forget(request: Request): void {
    this.#turns.end(request);
    this.#steps.forget?.(request);
  }

  subscribe(request: Request, wake: (grant?: Grant<null>) => void): Promise<() => void> {
    return this.#listener.wake(request.id, wake);
  }

  onLoss(tell: (id: string, reason: LossReason, detail?: string) => void): () => void {
    return this.#listener.onLoss(tell);
  }

  async owns(request: Request, _cookie: null, io: Io): Promise<boolean> {
    this.#refuseClosed(request.keys[0]);
    return this.#steps.owns(request, io);
  }

  async note(request: Request, _cookie: null, note: Note, io: Io): Promise<void> {
    this.#refuseClosed(request.keys[0]);
    await this.#steps.note(request, note, io);
  }

  async inspect(key: string, io: Io): Promise<LockInfo | null> {
    this.#refuseClosed(key);
    const [info = null] = await this.#steps.look([key], io);
    if (info instanceof LockError) throw info;
    return info;
  }

  async *list(options: { readonly prefix: string; readonly limit: number }, io: Io): AsyncIterable<LockInfo> {
    let left = options.limit;
    const pages = keysWith(this.#port, this.#names, options.prefix, io)[Symbol.asyncIterator]();
    const next = (): Promise<IteratorResult<string[]>> => this.#named("list the locks", () => pages.next());
    for (let page = await next(); page.done !== true; page = await next()) {
      for (const info of await this.#look(page.value, io)) {
        if (left <= 0) return;
        left -= 1;
        yield info;
      }
      if (left <= 0) return;
    }
  }

  async revoke(key: string, options: RevokeOptions, io: Io): Promise<RevokeAnswer> {
    this.#refuseClosed(key);
    return this.#steps.revoke(key, options, io);
  }

  async check(io: Io): Promise<readonly Finding[]> {
    try {
      const found = await findings(this.#port, this.#replicas, io, () => this.#env.system.monoMs());
      return [...found, ...noPush(this.#listener.failure)];
    } catch (error) {
      throw redisError(error, "be checked");
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    const listening = this.#listener.close();
    await this.#port.close();
    await listening;
  }

  /** Leases whose keys one script can reach. */
  async #renewTogether(items: readonly RenewItem<null>[], io: Io): Promise<readonly RenewAnswer[]> {
    const alone = (item: RenewItem<null>): Promise<RenewAnswer[]> =>
      this.#steps.renew([item], io).catch((cause: unknown) => [{ state: "unknown", cause }]);
    return together(
      items,
      () => this.#steps.renew(items, io),
      async () => (await Promise.all(items.map(alone))).flat(),
    );
  }

  async #end(request: Request, used: readonly string[], io: Io): Promise<boolean> {
    this.#refuseClosed(request.keys[0]);
    const turn = this.#turns.end(request);
    const open = this.#turns.oldestOpen(request);
    const fences = request.keys.map((_key, at) => used[at] ?? "");
    return this.#steps.end(request, turn, fences, open, io);
  }

  async #look(keys: readonly string[], io: Io): Promise<LockInfo[]> {
    const batches = batchesOf(
      keys.length,
      LOOKED_AT_AT_ONCE,
      this.#slots((at) => keys[at]),
    );
    const found = await Promise.all(
      batches.map(async (batch) => {
        const some = batch.map((at) => keys[at] as string);
        const alone = (key: string): Promise<(LockInfo | LockError | null)[]> => this.#steps.look([key], io);
        return together(
          some,
          () => this.#steps.look(some, io),
          async () => (await Promise.all(some.map((key) => alone(key).catch(damagedOnly)))).flat(),
        );
      }),
    );
    // A damaged record is named by `inspect`; a list goes on without it.
    return found.flat().filter((info): info is LockInfo => info !== null && !LockError.is(info));
  }

  /** By position, the slot of a key; null where all keys are in one place. */
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

/** Work on many keys at once, or on each alone where one of them keeps the others from it. */
async function together<T>(
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
