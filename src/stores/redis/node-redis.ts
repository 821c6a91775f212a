// node-redis (package `redis` or `@redis/client`, 4 to 6) behind the port. The client is known by its shape. One that was given
// is never changed, connected or closed; for listening it is duplicated.

import type { Patience, RedisPort, Reply } from "./port.ts";

/** What is used of a client. */
export interface NodeRedisClient {
  readonly isOpen: boolean;
  readonly isReady: boolean;
  sendCommand(args: readonly string[], options?: object): Promise<unknown>;
  duplicate(overrides?: object): NodeRedisClient;
  connect(): Promise<unknown>;
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>;
  on(event: string, listener: (...args: readonly unknown[]) => void): unknown;
  unref?(): void;
  /** 5 and later. */
  destroy?(): void;
  /** Up to 4. */
  disconnect?(): Promise<void>;
}

export interface NodeRedisModule {
  createClient(options: object): NodeRedisClient;
}

const LONGEST_RETRY_MS = 1_000;
const FIRST_RETRY_MS = 20;
const CONNECT_MS = 2_000;

export function isNodeRedis(client: object): client is NodeRedisClient {
  const { sendCommand, duplicate, isOpen, subscribe } = client as Partial<NodeRedisClient>;
  const plain = typeof isOpen === "boolean" && typeof sendCommand === "function";
  return (
    plain && typeof duplicate === "function" && typeof subscribe === "function" && !("masters" in client)
  );
}

export class NodeRedisPort implements RedisPort {
  readonly keyPrefix = "";
  readonly #client: NodeRedisClient;
  readonly #own: boolean;
  readonly #listeners = new Set<NodeRedisClient>();

  constructor(client: NodeRedisClient, own: boolean) {
    this.#client = client;
    this.#own = own;
  }

  /** A client of our own. Its first connection fails at once; later ones are tried again for as long as it is open. */
  static async connect(module: NodeRedisModule, url: string): Promise<NodeRedisPort> {
    let connected = false;
    const reconnectStrategy = (retries: number): number | false =>
      connected ? Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** retries) : false;
    const client = module.createClient({
      url,
      socket: { reconnectStrategy, connectTimeout: CONNECT_MS },
      disableOfflineQueue: true,
    });
    client.on("error", () => {});
    await client.connect();
    connected = true;
    client.unref?.();
    return new NodeRedisPort(client, true);
  }

  send(words: readonly string[], patience: Patience): Promise<Reply> {
    // A command that is written at once cannot be withdrawn, so the signal is made only where it would have to wait.
    // The empty mapping takes the place of one that the client may have been set to. `signal` is of 4, `abortSignal` of later ones.
    const options = this.#client.isReady
      ? PLAIN
      : { ...PLAIN, signal: patience.signal, abortSignal: patience.signal };
    return this.#client.sendCommand(words, options) as Promise<Reply>;
  }

  async subscribe(channel: string, hear: (message: string) => void): Promise<() => Promise<void>> {
    const listener = this.#client.duplicate({ disableOfflineQueue: false });
    listener.on("error", () => {});
    this.#listeners.add(listener);
    const stop = async (): Promise<void> => {
      this.#listeners.delete(listener);
      await end(listener);
    };
    try {
      await listener.connect();
      listener.unref?.();
      await listener.subscribe(channel, hear);
    } catch (error) {
      await stop();
      throw error;
    }
    return stop;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#listeners].map(end));
    this.#listeners.clear();
    if (this.#own) await end(this.#client);
  }
}

const PLAIN = { typeMapping: {} };

/** At once: whatever is still under way has been given up by its caller. */
async function end(client: NodeRedisClient): Promise<void> {
  try {
    if (client.destroy !== undefined) client.destroy();
    else await client.disconnect?.();
  } catch {
    // It was closed already.
  }
}
