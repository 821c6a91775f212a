// The client of a simulated server: what a network store is to core. A call is a message, an answer is a message, a push is
// a message; whatever the network swallows is never heard of again.

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
  Store,
  StoreEnv,
} from "../../src/core/store.ts";
import { memoryGuarantees } from "../../src/stores/memory/guarantees.ts";
import type { Client, MemoryServer, Step } from "../../src/stores/memory/server.ts";
import type { Wake } from "../../src/stores/shared/ledger.ts";
import type { Pushes } from "./backend.ts";
import type { Network } from "./network.ts";
import type { SimProcess } from "./process.ts";
import type { SimServer } from "./server.ts";

export const simGuarantees: Guarantees = {
  ...memoryGuarantees,
  clock: "store",
  scope: "network",
  fence: "G1",
};

/** All clients that a server can push to. */
export class Switchboard {
  readonly #stores = new Map<string, SimStore>();
  readonly pushes: Pushes = { lost: false, lateMs: 0 };

  add(store: SimStore): void {
    this.#stores.set(store.proc, store);
  }

  remove(store: SimStore): void {
    this.#stores.delete(store.proc);
  }

  push(wakes: readonly Wake[]): void {
    if (this.pushes.lost) return;
    for (const wake of wakes) this.#stores.get(wake.proc)?.pushed(wake, this.pushes.lateMs);
  }
}

export function simStore(
  process: SimProcess,
  server: SimServer,
  network: Network,
  switchboard: Switchboard,
): Store {
  return {
    name: "sim",
    guarantees: simGuarantees,
    open: (env) => {
      const store = new SimStore(env, process, server, network, switchboard);
      // Every other process has the callback forms.
      if (store.proc >= "8") Reflect.deleteProperty(store, "direct");
      return Promise.resolve(store);
    },
  };
}

export class SimStore implements OpenStore<null> {
  readonly guarantees: Guarantees = simGuarantees;
  readonly proc: string;
  readonly #client: Client;
  readonly #process: SimProcess;
  readonly #server: SimServer;
  readonly #network: Network;
  readonly #switchboard: Switchboard;
  readonly #wakes = new Map<string, () => void>();
  #tellLoss: ((id: string, reason: LossReason, detail?: string) => void) | null = null;

  constructor(
    env: StoreEnv,
    process: SimProcess,
    server: SimServer,
    network: Network,
    switchboard: Switchboard,
  ) {
    this.proc = process.randomId();
    this.#client = { proc: this.proc, namespace: env.namespace };
    this.#process = process;
    this.#server = server;
    this.#network = network;
    this.#switchboard = switchboard;
    switchboard.add(this);
  }

  readonly direct: DirectCalls<null> = {
    attempt: (request, settle) =>
      void this.#ask((server) => server.attempt(this.#client, request)).then((answer) =>
        settle(null, answer),
      ),
    release: (request, _cookie, lastFence, settle) =>
      void this.#ask((server) => server.release(this.#client, request, { lastFences: [lastFence] })).then(
        (outcome) => settle(null, outcome),
      ),
  };

  attempt(request: Request, _io: Io): Promise<AttemptAnswer<null>> {
    return this.#ask((server) => server.attempt(this.#client, request));
  }

  renew(items: readonly RenewItem<null>[], _io: Io): Promise<readonly RenewAnswer[]> {
    return this.#ask((server) => server.renew(this.#client, items));
  }

  release(
    request: Request,
    _cookie: null,
    options: ReleaseOptions,
    _io: Io,
  ): Promise<"released" | "not-held"> {
    return this.#ask((server) => server.release(this.#client, request, options));
  }

  abandon(requests: readonly Request[], _io: Io): Promise<readonly Request[]> {
    return this.#ask((server) => {
      const steps = requests.map((request) => server.abandon(this.#client, request));
      return { answer: [], wakes: steps.flatMap(({ wakes }) => wakes) };
    });
  }

  subscribe(request: Request, wake: () => void): Promise<() => void> {
    this.#wakes.set(request.id, wake);
    return Promise.resolve(() => this.#wakes.delete(request.id));
  }

  onLoss(tell: (id: string, reason: LossReason, detail?: string) => void): () => void {
    this.#tellLoss = tell;
    return () => {
      this.#tellLoss = null;
    };
  }

  owns(request: Request, _cookie: null, _io: Io): Promise<boolean> {
    return this.#ask((server) => server.owns(this.#client, request));
  }

  note(request: Request, _cookie: null, note: Note, _io: Io): Promise<void> {
    return this.#ask((server) => server.note(this.#client, request, note));
  }

  inspect(key: string, _io: Io): Promise<LockInfo | null> {
    return this.#ask((server) => server.inspect(this.#client, key));
  }

  async *list(options: { prefix: string; limit: number }, io: Io): AsyncIterable<LockInfo> {
    const keys = await this.#ask((server) => ({ answer: server.keys(this.#client), wakes: [] }));
    for (const key of keys.filter((one) => one.startsWith(options.prefix)).slice(0, options.limit)) {
      const info = await this.inspect(key, io);
      if (info !== null) yield info;
    }
  }

  revoke(key: string, options: RevokeOptions, _io: Io): Promise<RevokeAnswer> {
    return this.#ask((server) => server.revoke(this.#client, key, options));
  }

  check(_io: Io): Promise<readonly Finding[]> {
    return Promise.resolve([]);
  }

  close(): Promise<void> {
    this.#switchboard.remove(this);
    this.#wakes.clear();
    return Promise.resolve();
  }

  pushed(wake: Wake, lateMs: number): void {
    const deliver = (): void => {
      if (wake.revoked !== undefined) this.#tellLoss?.(wake.id, "revoked", wake.revoked);
      else this.#wakes.get(wake.id)?.();
    };
    this.#network.send(
      this.#server.name,
      this.#process.processLabel,
      () => this.#process.happens(deliver),
      lateMs,
    );
  }

  #ask<T>(decide: (server: MemoryServer) => Step<T>): Promise<T> {
    return new Promise((resolve) => {
      const me = this.#process.processLabel;
      const reply = (step: Step<T>): void => {
        this.#network.send(this.#server.name, me, () => this.#process.happens(() => resolve(step.answer)));
        this.#switchboard.push(step.wakes);
      };
      this.#network.send(me, this.#server.name, () => this.#server.arrives(decide, reply));
    });
  }
}
