// Five Redis nodes as the subject of the suite. They were started just now and are known to be new, so they
// need not sit out; every write is on disk before it is acknowledged, so that a restart forgets nothing.

import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findProgram } from "../../../scripts/servers/packages.ts";
import { freePorts } from "../../../scripts/servers/ports.ts";
import type { RunningServer } from "../../../scripts/servers/process.ts";
import { redisProgram, startRedis } from "../../../scripts/servers/redis.ts";
import type { Store } from "../../../src/index.ts";
import type { RedisNodeClient } from "../../../src/stores/redis/index.ts";
import { redlock, redlockGuarantees } from "../../../src/stores/redlock/index.ts";
import type { Server, Subject } from "../../../src/testing/index.ts";
import { Resp } from "../redis/resp.ts";

const NODES = 5;
const DURABLE = ["--appendonly", "yes", "--appendfsync", "always"];

/**
 * In memory where that can be had: five servers that wait for a disk with every write are slow on a small
 * machine.
 */
const FOLDER = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();

/** Independent masters on ports of their own, which they keep over restarts. */
export class Masters {
  readonly #folders: string[];
  readonly #args: readonly string[];
  readonly #env: (at: number) => Readonly<Record<string, string>>;
  #ports: number[] = [];
  readonly servers: RunningServer[] = [];

  /** `env`: what each of them finds in its environment beside its own. */
  constructor(
    count: number = NODES,
    args: readonly string[] = DURABLE,
    env: (at: number) => Readonly<Record<string, string>> = () => ({}),
  ) {
    this.#args = args;
    this.#env = env;
    this.#folders = Array.from({ length: count }, () => mkdtempSync(join(FOLDER, "holdfast-redlock-")));
  }

  get urls(): string[] {
    return this.#ports.map((port) => `redis://127.0.0.1:${port}`);
  }

  get ports(): readonly number[] {
    return this.#ports;
  }

  async start(): Promise<void> {
    if (this.#ports.length === 0) this.#ports = await freePorts(this.#folders.length);
    await Promise.all(this.#ports.map((_port, at) => this.startOne(at)));
  }

  async startOne(at: number, args: readonly string[] = this.#args): Promise<void> {
    const port = this.#ports[at] as number;
    const found = await findProgram(redisProgram);
    const program = { ...found, env: { ...found.env, ...this.#env(at) } };
    const dataFolder = this.#folders[at] as string;
    this.servers[at] = await startRedis({ own: true, port, dataFolder, args, program });
  }

  /** kill -9, at once. */
  async killOne(at: number): Promise<void> {
    this.servers[at]?.kill("SIGKILL");
    await this.servers[at]?.stop();
  }

  freeze(at: number): void {
    this.servers[at]?.kill("SIGSTOP");
  }

  thaw(at: number): void {
    this.servers[at]?.kill("SIGCONT");
  }

  /** One command. */
  async ask(at: number, ...words: string[]): Promise<unknown> {
    const asked = await Resp.open(this.#ports[at] as number);
    try {
      return await asked.ask(...words);
    } finally {
      asked.close();
    }
  }

  async stop(): Promise<void> {
    this.servers.forEach((_server, at) => this.thaw(at));
    await Promise.all(this.servers.map((server) => server.stop()));
    for (const folder of this.#folders) rmSync(folder, { recursive: true, force: true });
  }
}

/** For tests in which all nodes answer. */
export const PATIENT = "20s" as const;

/** As a store that was told that nodes without a marker are new. */
export function fresh(store: Store): Store {
  return { ...store, open: (env) => store.open({ ...env, allow: [...env.allow, "fresh-nodes"] }) };
}

/**
 * `mixed`: every other node by a client of ioredis. `frozen`: so many nodes are stopped for the whole run.
 */
export function redlockSubject({ mixed = false, frozen = 0 } = {}): {
  readonly store: Subject;
  readonly server: Server;
} {
  const masters = new Masters();
  const clients: RedisNodeClient[] = [];
  const nodes = async (): Promise<(string | RedisNodeClient)[]> => {
    if (!mixed) return masters.urls;
    if (clients.length === 0) clients.push(...(await mixedClients(masters.urls)));
    return clients;
  };
  const freeze = (): void => {
    for (let at = 0; at < frozen; at += 1) masters.freeze(NODES - 1 - at);
  };
  const store: Subject = {
    name: `redlock${mixed ? ", ioredis and node-redis mixed" : ""}${frozen > 0 ? `, ${frozen} of ${NODES} nodes frozen` : ""}`,
    guarantees: redlockGuarantees,
    create: async () => fresh(redlock({ nodes: await nodes(), driver: "ioredis", ...timeoutOf(frozen) })),
    child: () => ({ module: join(import.meta.dirname, "conformance-child.ts"), args: masters.urls }),
    footprint: async (namespace) => ((await masters.ask(0, "KEYS", `${namespace}:*`)) as string[]).length,
  };
  return {
    store,
    server: {
      async start() {
        await masters.start();
        freeze();
      },
      async restart() {
        for (let at = 0; at < frozen; at += 1) masters.thaw(NODES - 1 - at);
        await Promise.all(masters.ports.map((_port, at) => masters.killOne(at)));
        await masters.start();
        freeze();
      },
      async stop() {
        for (const client of clients) end(client);
        await masters.stop();
      },
    },
  };
}

/** A busy machine may take longer than the usual second; frozen nodes are to be given up soon. */
function timeoutOf(frozen: number): { readonly nodeTimeout?: "20s" } {
  return frozen > 0 ? {} : { nodeTimeout: PATIENT };
}

async function mixedClients(urls: readonly string[]): Promise<RedisNodeClient[]> {
  const [{ createClient }, { Redis }] = await Promise.all([import("redis"), import("ioredis")]);
  return Promise.all(
    urls.map(async (url, at): Promise<RedisNodeClient> => {
      const client =
        at % 2 === 0
          ? createClient({ url, socket: { reconnectStrategy: 20 } })
          : new Redis(url, { retryStrategy: () => 20 });
      client.on("error", () => {});
      if ("isOpen" in client) await client.connect();
      return client;
    }),
  );
}

function end(client: object): void {
  const { destroy, disconnect } = client as { destroy?(): void; disconnect?(): void };
  if (destroy !== undefined) destroy.call(client);
  else disconnect?.call(client);
}
