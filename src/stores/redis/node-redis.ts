// A client of node-redis (package `redis` or `@redis/client`, 4 to 6) that was given, behind the port. It is
// known by its shape. It is never changed, connected or closed; for listening, and when it has stopped
// answering, it is duplicated. While the client reconnects, a command waits here, within its timeout.

import type { HealthSystem } from "../shared/connection-health.ts";
import { retryWhileUnsent } from "../shared/retry-while-unsent.ts";
import { NotSentError } from "./lane.ts";
import type { Link } from "./link.ts";
import { GivenHealth } from "./node-port.ts";
import type { Patience, RedisPort, Reply, Session, Word } from "./port.ts";

/** What is used of a client. */
export interface NodeRedisClient {
  readonly isOpen: boolean;
  readonly isReady: boolean;
  readonly options?: { readonly socket?: object } | undefined;
  sendCommand(args: readonly Word[], options?: object): Promise<unknown>;
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

/**
 * Well below the 500 ms that one vote of a redlock waits for a node, so that the client reconnects within a
 * call once the server is back.
 */
const LONGEST_RETRY_MS = 200;
const FIRST_RETRY_MS = 20;

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
  readonly #system: HealthSystem;
  readonly #health: GivenHealth;
  readonly #listeners = new Set<NodeRedisClient>();
  readonly #subscribers = new Set<NodeRedisClient>();

  constructor(client: NodeRedisClient, system: HealthSystem) {
    this.#client = client;
    this.#system = system;
    const dial = async (cancel?: AbortSignal): Promise<Link> => {
      // Not needed by a store whose client answers.
      const { linkOptions, nodeRedisLink } = await import("./node-redis-link.ts");
      return nodeRedisLink(client.duplicate(linkOptions(null, client.options?.socket ?? {})), cancel);
    };
    this.#health = new GivenHealth(dial, "", system, () => this.#subscribers.forEach(reconnect));
  }

  send(words: readonly string[], patience: Patience): Promise<Reply> {
    const { standIn } = this.#health;
    if (standIn !== null) return standIn.send(words, patience);
    // While a store is opened there is no timeout to retry within: the client's own queue waits for a
    // connection.
    if (this.#client.isReady || patience.timeoutMs === undefined) return this.#sendNow(words, patience);
    return retryWhileUnsent(
      patience,
      () => this.#system.monoMs(),
      () => this.#sendWhenReady(words, patience),
      { isUnsent },
    );
  }

  async subscribe(channel: string, hear: (message: string) => void): Promise<() => Promise<void>> {
    const again = new Reconnection();
    const socket = { ...this.#client.options?.socket, reconnectStrategy: again.strategy };
    const listener = this.#client.duplicate({ disableOfflineQueue: false, socket });
    this.#listeners.add(listener);
    const stop = async (): Promise<void> => {
      this.#listeners.delete(listener);
      this.#subscribers.delete(listener);
      await endNodeRedis(listener);
    };
    try {
      await again.connect(listener);
      await listener.subscribe(channel, hear);
      this.#subscribers.add(listener);
    } catch (error) {
      await stop();
      throw error;
    }
    return stop;
  }

  async session(): Promise<Session> {
    const once = new Reconnection(false);
    const socket = { ...this.#client.options?.socket, reconnectStrategy: once.strategy };
    const client = this.#client.duplicate({ disableOfflineQueue: true, socket });
    this.#listeners.add(client);
    client.on("end", () => this.#listeners.delete(client));
    // One that is cut off during the greeting may be waited for in vain.
    const failed = new Promise<never>((_resolve, reject) => client.on("error", reject));
    try {
      await Promise.race([once.connect(client), failed]);
    } catch (error) {
      this.#listeners.delete(client);
      await endNodeRedis(client);
      throw error;
    }
    return new NodeRedisSession(client);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#listeners].map(endNodeRedis));
    this.#listeners.clear();
    this.#subscribers.clear();
    await this.#health.close();
  }

  /** The empty mapping takes the place of one that the client may have been set to. */
  #sendNow(words: readonly string[], { timeoutMs }: Patience): Promise<Reply> {
    return this.#health.watch(this.#send, words, timeoutMs);
  }

  readonly #send = (words: readonly string[]): Promise<Reply> =>
    this.#client.sendCommand(words, PLAIN) as Promise<Reply>;

  /** A client that is closed, or was never connected, says so itself. */
  async #sendWhenReady(words: readonly string[], patience: Patience): Promise<Reply> {
    if (this.#client.isReady || !this.#client.isOpen) return this.#sendNow(words, patience);
    throw new NotSentError(new Error("there is no connection to Redis"));
  }
}

const isUnsent = (error: unknown): boolean => error instanceof NotSentError;

class NodeRedisSession implements Session {
  readonly #client: NodeRedisClient;

  constructor(client: NodeRedisClient) {
    this.#client = client;
  }

  get open(): boolean {
    return this.#client.isReady;
  }

  send(words: readonly Word[]): Promise<Reply> {
    return this.#client.sendCommand(words, BYTES) as Promise<Reply>;
  }

  close(): void {
    void endNodeRedis(this.#client);
  }
}

export const PLAIN: object = { typeMapping: {} };
/** Replies as bytes: by the sign of a bulk string in 5 and later, by name in 4. */
export const BYTES: object = { typeMapping: { [36]: Buffer }, returnBuffers: true };

/**
 * The first connection of a client fails at once, so that its opener hears why; later ones are tried again
 * for ever, or never.
 */
class Reconnection {
  #connected = false;
  readonly #again: boolean;

  constructor(again = true) {
    this.#again = again;
  }

  readonly strategy = (retries: number): number | false =>
    this.#connected && this.#again && Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** retries);

  async connect(client: NodeRedisClient): Promise<void> {
    const failures: Error[] = [];
    client.on("error", (error: unknown) => {
      if (!this.#connected) failures.push(error instanceof Error ? error : new Error(String(error)));
    });
    await client.connect();
    // It also resolves when the server hung up during the greeting, as one does that has too many clients,
    // and then believes in a dead socket for ever.
    if (failures[0] !== undefined) throw failures[0];
    this.#connected = true;
    client.unref?.();
    if (this.#again) mistrust(client);
  }
}

/**
 * The same on later connections, as to a server that is just ending: it calls itself ready after its socket
 * has failed.
 */
function mistrust(client: NodeRedisClient): void {
  let failed = false;
  client.on("connect", () => {
    failed = false;
  });
  client.on("error", () => {
    failed = true;
  });
  client.on("ready", () => {
    // Not within its own loop of tries.
    if (failed) queueMicrotask(() => reconnect(client));
  });
}

/** What it is subscribed to it asks for again. */
function reconnect(client: NodeRedisClient): void {
  if (!client.isOpen) return;
  void endNodeRedis(client);
  client.connect().catch(() => {});
}

/** At once: whatever is still under way has been given up by its caller. */
export async function endNodeRedis(client: NodeRedisClient): Promise<void> {
  try {
    if (client.destroy !== undefined) client.destroy();
    else await client.disconnect?.();
  } catch {
    // It was closed already.
  }
}
