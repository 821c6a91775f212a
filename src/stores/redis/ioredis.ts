// ioredis (5 and 6) behind the port. The client is known by its shape. One that was given is never changed or closed; for
// listening it is duplicated. Its offline queue cannot be left again, so a command waits here until the client is ready.

import type { ConnectionOptions } from "node:tls";
import { StoreUnavailableError } from "../../core/errors.ts";
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
  disconnect(): void;
  on(event: string, listener: (...args: readonly never[]) => void): unknown;
  off(event: string, listener: (...args: readonly never[]) => void): unknown;
}

export type IoredisClass = {
  new (url: string, options: object): IoredisClient;
  new (options: object): IoredisClient;
};

const LONGEST_RETRY_MS = 1_000;
const FIRST_RETRY_MS = 20;
const CONNECT_MS = 2_000;
const QUIET = (): void => {};

export function isIoredis(client: object): client is IoredisClient {
  const { status, call, duplicate, options } = client as Partial<IoredisClient>;
  const plain = typeof status === "string" && typeof call === "function" && typeof options === "object";
  return plain && typeof duplicate === "function" && (client as { isCluster?: unknown }).isCluster !== true;
}

export class IoredisPort implements RedisPort {
  readonly keyPrefix: string;
  readonly #client: IoredisClient;
  readonly #own: boolean;
  readonly #listeners = new Set<IoredisClient>();
  /** One for all commands that wait for the connection. */
  #ready: Promise<void> | null = null;

  constructor(client: IoredisClient, own: boolean) {
    this.#client = client;
    this.#own = own;
    this.keyPrefix = client.options.keyPrefix ?? "";
  }

  /** A client of our own. */
  static async connect(Redis: IoredisClass, url: string, tls: ConnectionOptions): Promise<IoredisPort> {
    const again = new Reconnection();
    const client = new Redis(url, {
      ...again.options,
      ...(Object.keys(tls).length === 0 ? {} : { tls }),
      connectTimeout: CONNECT_MS,
      autoResendUnfulfilledCommands: false,
    });
    await again.connect(client);
    return new IoredisPort(client, true);
  }

  send(words: readonly string[], patience: Patience): Promise<Reply> {
    const [command, ...args] = words as readonly [string, ...string[]];
    const ask = (): Promise<Reply> => this.#client.call(command, ...args) as Promise<Reply>;
    return this.#client.status === "ready" ? ask() : this.#whenReady(patience).then(ask);
  }

  async subscribe(channel: string, hear: (message: string) => void): Promise<() => Promise<void>> {
    const again = new Reconnection();
    const listener = this.#client.duplicate({ ...again.options, autoResubscribe: true });
    listener.on("message", (_channel: string, message: string) => hear(message));
    this.#listeners.add(listener);
    const stop = (): Promise<void> => {
      this.#listeners.delete(listener);
      listener.disconnect();
      return Promise.resolve();
    };
    try {
      await again.connect(listener);
      await listener.subscribe(channel);
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

  close(): Promise<void> {
    for (const listener of this.#listeners) listener.disconnect();
    this.#listeners.clear();
    if (this.#own) this.#client.disconnect();
    return Promise.resolve();
  }

  /** Rejects when the caller has stopped listening: what has not been sent by then never is. */
  #whenReady({ signal }: Patience): Promise<void> {
    // A client that connects on its first command has to be given one.
    if (this.#client.status === "wait") return Promise.resolve();
    if (this.#client.status === "end")
      return Promise.reject(new StoreUnavailableError("the ioredis client is closed", { retryable: false }));
    this.#ready ??= this.#becomesReady();
    const ready = this.#ready;
    return new Promise((resolve, reject) => {
      const giveUp = (): void => reject(new StoreUnavailableError("there is no connection to Redis"));
      if (signal.aborted) giveUp();
      else signal.addEventListener("abort", giveUp, { once: true });
      ready
        .then(resolve, reject)
        .finally(() => signal.removeEventListener("abort", giveUp))
        .catch(QUIET);
    });
  }

  #becomesReady(): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        this.#ready = null;
        this.#client.off("ready", onReady);
        this.#client.off("end", onEnd);
      };
      const onReady = (): void => {
        settle();
        resolve();
      };
      const onEnd = (): void => {
        settle();
        reject(new StoreUnavailableError("the ioredis client is closed"));
      };
      this.#client.on("ready", onReady);
      this.#client.on("end", onEnd);
    });
  }
}

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

/** The first connection of a client fails at once, so that its opener hears why; later ones are tried again for ever, or never. */
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
