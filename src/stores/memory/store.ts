// The reference store: the whole contract in its plainest form. Read this store first.
// It is a client of a MemoryServer in the same process, and deliberately behaves like the client of a network
// store: a chosen waiter is notified and has to attempt again, and an ended id stays ended.

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
import type { System } from "../../core/system.ts";
import type { Wake } from "../shared/ledger.ts";
import { memoryGuarantees } from "./guarantees.ts";
import { type Client, MemoryServer, type Step } from "./server.ts";

/**
 * What all stores opened from one `memory()` share: one server per clock, because times of two clocks
 * cannot be compared.
 */
export class MemoryWorld {
  readonly #clients = new Map<string, MemoryStore>();
  readonly #servers = new Map<System, MemoryServer>();

  open(env: StoreEnv): MemoryStore {
    const store = new MemoryStore(this, this.serverOf(env.system), env);
    this.#clients.set(store.proc, store);
    return store;
  }

  /** The server for this clock. Makes one on first use. */
  serverOf(system: System): MemoryServer {
    const server = this.#servers.get(system) ?? this.#start(system);
    this.#servers.set(system, server);
    return server;
  }

  /** How many records a namespace has. */
  footprint(namespace: string): number {
    const client = { proc: "", namespace };
    return [...this.#servers.values()].reduce((sum, server) => sum + server.keys(client).length, 0);
  }

  push(wake: Wake): void {
    this.#clients.get(wake.proc)?.hear(wake);
  }

  close(proc: string): void {
    this.#clients.delete(proc);
  }

  #start(system: System): MemoryServer {
    return new MemoryServer({
      monoMs: () => system.monoMs(),
      wallMs: () => system.wallMs(),
      alive: (proc) => this.#clients.has(proc),
    });
  }
}

export class MemoryStore implements OpenStore<null> {
  readonly guarantees: Guarantees = memoryGuarantees;
  readonly proc: string;
  readonly #world: MemoryWorld;
  readonly #server: MemoryServer;
  readonly #client: Client;
  readonly #wakes = new Map<string, () => void>();
  #lossListener: ((id: string, reason: LossReason, detail?: string) => void) | null = null;

  constructor(world: MemoryWorld, server: MemoryServer, env: StoreEnv) {
    this.#world = world;
    this.#server = server;
    this.proc = env.system.randomId();
    this.#client = { proc: this.proc, namespace: env.namespace };
  }

  readonly direct: DirectCalls<null> = {
    attempt: (request, settle) => {
      const answer = this.#notify(this.#server.attempt(this.#client, request));
      queueMicrotask(() => settle(null, answer));
    },
    release: (request, _cookie, lastFence, settle) => {
      const outcome = this.#notify(this.#server.release(this.#client, request, { lastFences: [lastFence] }));
      queueMicrotask(() => settle(null, outcome));
    },
  };

  attempt(request: Request, _io: Io): Promise<AttemptAnswer<null>> {
    return this.#done(this.#server.attempt(this.#client, request));
  }

  renew(items: readonly RenewItem<null>[], _io: Io): Promise<readonly RenewAnswer[]> {
    return this.#done(this.#server.renew(this.#client, items));
  }

  release(
    request: Request,
    _cookie: null,
    options: ReleaseOptions,
    _io: Io,
  ): Promise<"released" | "not-held"> {
    return this.#done(this.#server.release(this.#client, request, options));
  }

  async abandon(requests: readonly Request[], _io: Io): Promise<readonly Request[]> {
    await Promise.all(requests.map((request) => this.#done(this.#server.abandon(this.#client, request))));
    return [];
  }

  subscribe(request: Request, wake: () => void): Promise<() => void> {
    this.#wakes.set(request.id, wake);
    return Promise.resolve(() => this.#wakes.delete(request.id));
  }

  onLoss(listener: (id: string, reason: LossReason, detail?: string) => void): () => void {
    this.#lossListener = listener;
    return () => {
      this.#lossListener = null;
    };
  }

  owns(request: Request, _cookie: null, _io: Io): Promise<boolean> {
    return this.#done(this.#server.owns(this.#client, request));
  }

  note(request: Request, _cookie: null, note: Note, _io: Io): Promise<void> {
    return this.#done(this.#server.note(this.#client, request, note));
  }

  inspect(key: string, _io: Io): Promise<LockInfo | null> {
    return this.#done(this.#server.inspect(this.#client, key));
  }

  async *list(options: { prefix: string; limit: number }, io: Io): AsyncIterable<LockInfo> {
    let left = options.limit;
    for (const key of this.#server.keys(this.#client)) {
      if (left === 0) return;
      const info = key.startsWith(options.prefix) ? await this.inspect(key, io) : null;
      if (info === null) continue;
      left -= 1;
      yield info;
    }
  }

  revoke(key: string, options: RevokeOptions, _io: Io): Promise<RevokeAnswer> {
    return this.#done(this.#server.revoke(this.#client, key, options));
  }

  check(_io: Io): Promise<readonly Finding[]> {
    return Promise.resolve([]);
  }

  close(): Promise<void> {
    this.#world.close(this.proc);
    this.#wakes.clear();
    return Promise.resolve();
  }

  /** Delivers a notification of the server. */
  hear(wake: Wake): void {
    if (wake.revoked !== undefined) this.#lossListener?.(wake.id, "revoked", wake.revoked);
    else this.#wakes.get(wake.id)?.();
  }

  #done<T>(step: Step<T>): Promise<T> {
    return Promise.resolve(this.#notify(step));
  }

  /** Sends the notifications of a step and returns its answer. */
  #notify<T>({ answer, wakes }: Step<T>): T {
    for (const wake of wakes) this.#world.push(wake);
    return answer;
  }
}
