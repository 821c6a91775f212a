// A client of ioredis (5 and 6) that was given, behind the port. It is known by its shape. It is never changed
// or closed; for listening, and when it has stopped answering, it is duplicated. Its offline queue cannot be
// left again, so a command waits here until the client is ready.

import { StoreUnavailableError } from "../../core/errors.ts";
import type { HealthSystem } from "../shared/connection-health.ts";
import { retryWhileUnsent } from "../shared/retry-while-unsent.ts";
import { NotSentError } from "./lane.ts";
import type { Link } from "./link.ts";
import { GivenHealth } from "./node-port.ts";
import type { Patience, RedisPort, Reply, Session, Word } from "./port.ts";

/** What is used of a client. */
export interface IoredisClient {
  readonly status: string;
  readonly options: { readonly keyPrefix?: string };
  readonly stream?: { unref?(): void };
  call(command: string, ...args: readonly string[]): Promise<unknown>;
  callBuffer(command: string, ...args: readonly Word[]): Promise<unknown>;
  duplicate(override?: object): IoredisClient;
  connect(): Promise<unknown>;
  subscribe(channel: string): Promise<unknown>;
  disconnect(reconnect?: boolean): void;
  on(event: string, listener: (...args: readonly never[]) => void): unknown;
  off(event: string, listener: (...args: readonly never[]) => void): unknown;
}

export type IoredisClass = {
  new (url: string, options: object): IoredisClient;
  new (options: object): IoredisClient;
};

/**
 * Well below the 500 ms that one vote of a redlock waits for a node, so that the client reconnects within a
 * call once the server is back.
 */
const LONGEST_RETRY_MS = 200;
const FIRST_RETRY_MS = 20;

export function isIoredis(client: object): client is IoredisClient {
  const { status, call, duplicate, options } = client as Partial<IoredisClient>;
  const plain = typeof status === "string" && typeof call === "function" && typeof options === "object";
  return plain && typeof duplicate === "function" && (client as { isCluster?: unknown }).isCluster !== true;
}

export class IoredisPort implements RedisPort {
  readonly keyPrefix: string;
  readonly #client: IoredisClient;
  readonly #system: HealthSystem;
  readonly #health: GivenHealth;
  readonly #listeners = new Set<IoredisClient>();
  readonly #subscribers = new Set<IoredisClient>();

  constructor(client: IoredisClient, system: HealthSystem) {
    this.#client = client;
    this.#system = system;
    this.keyPrefix = client.options.keyPrefix ?? "";
    const dial = async (cancel?: AbortSignal): Promise<Link> => {
      // Not needed by a store whose client answers.
      const { ioredisLink, linkOptions } = await import("./ioredis-link.ts");
      return ioredisLink(client.duplicate(linkOptions(null)), cancel);
    };
    this.#health = new GivenHealth(dial, this.keyPrefix, system, () =>
      // What it is subscribed to it asks for again.
      this.#subscribers.forEach((listener) => listener.disconnect(true)),
    );
  }

  send(words: readonly string[], patience: Patience): Promise<Reply> {
    const { standIn } = this.#health;
    if (standIn !== null) return standIn.send(words, patience);
    // While a store is opened there is no timeout to retry within: the client's own queue waits for a
    // connection.
    if (this.#client.status === "ready" || patience.timeoutMs === undefined)
      return this.#sendNow(words, patience);
    return retryWhileUnsent(
      patience,
      () => this.#system.monoMs(),
      () => this.#sendWhenReady(words, patience),
      { isUnsent },
    );
  }

  async subscribe(channel: string, hear: (message: string) => void): Promise<() => Promise<void>> {
    const again = new Reconnection();
    const listener = this.#client.duplicate({ ...again.options, autoResubscribe: true });
    listener.on("message", (_channel: string, message: string) => hear(message));
    this.#listeners.add(listener);
    const stop = (): Promise<void> => {
      this.#listeners.delete(listener);
      this.#subscribers.delete(listener);
      listener.disconnect();
      return Promise.resolve();
    };
    try {
      await again.connect(listener);
      await listener.subscribe(channel);
      this.#subscribers.add(listener);
    } catch (error) {
      await stop();
      throw error;
    }
    return stop;
  }

  async session(): Promise<Session> {
    const once = new Reconnection(false);
    const client = this.#client.duplicate({
      ...once.options,
      enableOfflineQueue: false,
      enableAutoPipelining: false,
      autoResendUnfulfilledCommands: false,
    });
    this.#listeners.add(client);
    client.on("end", () => this.#listeners.delete(client));
    await once.connect(client);
    return new IoredisSession(client);
  }

  async close(): Promise<void> {
    for (const listener of this.#listeners) listener.disconnect();
    this.#listeners.clear();
    this.#subscribers.clear();
    await this.#health.close();
  }

  /** The client sends its commands again after a reconnect. */
  #sendNow(words: readonly string[], { timeoutMs }: Patience): Promise<Reply> {
    return this.#health.watch(this.#send, words, timeoutMs);
  }

  readonly #send = (words: readonly string[]): Promise<Reply> => {
    const [command, ...args] = words as readonly [string, ...string[]];
    return this.#client.call(command, ...args) as Promise<Reply>;
  };

  async #sendWhenReady(words: readonly string[], patience: Patience): Promise<Reply> {
    const { status } = this.#client;
    if (status === "end")
      throw new StoreUnavailableError("the ioredis client is closed", { retryable: false });
    // A client that connects on its first command has to be given one.
    if (status === "ready" || status === "wait") return this.#sendNow(words, patience);
    throw new NotSentError(new Error("there is no connection to Redis"));
  }
}

const isUnsent = (error: unknown): boolean => error instanceof NotSentError;

class IoredisSession implements Session {
  readonly #client: IoredisClient;

  constructor(client: IoredisClient) {
    this.#client = client;
  }

  get open(): boolean {
    return this.#client.status === "ready";
  }

  send(words: readonly Word[]): Promise<Reply> {
    const [command, ...args] = words as readonly [string, ...Word[]];
    return this.#client.callBuffer(command, ...args) as Promise<Reply>;
  }

  close(): void {
    this.#client.disconnect();
  }
}

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

  readonly options: object = {
    lazyConnect: true,
    maxRetriesPerRequest: null,
    retryStrategy: (times: number) =>
      this.#connected && this.#again ? Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** times) : null,
  };

  /** ioredis only says "Connection is closed", and tells why in an event. */
  async connect(client: IoredisClient): Promise<void> {
    let cause: unknown;
    client.on("error", (error: unknown) => {
      if (!this.#connected) cause ??= error;
    });
    client.on("connect", () => client.stream?.unref?.());
    try {
      await client.connect();
      this.#connected = true;
    } catch (error) {
      client.disconnect();
      throw cause ?? error;
    }
  }
}
