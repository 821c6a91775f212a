// ioredis (5 and 6) behind the port. The client is known by its shape. One that was given is never changed or
// closed; for listening it is duplicated. Its offline queue cannot be left again, so a command waits here
// until the client is ready.

import type { ConnectionOptions } from "node:tls";
import { StoreUnavailableError } from "../../core/errors.ts";
import { retryWhileUnsent } from "../shared/retry-while-unsent.ts";
import { NotSentError } from "./lane.ts";
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

/**
 * Well below the 500 ms that one vote of a redlock waits for a node, so that the client reconnects within a
 * call once the server is back.
 */
const LONGEST_RETRY_MS = 200;
const FIRST_RETRY_MS = 20;
const CONNECT_MS = 2_000;

export function isIoredis(client: object): client is IoredisClient {
  const { status, call, duplicate, options } = client as Partial<IoredisClient>;
  const plain = typeof status === "string" && typeof call === "function" && typeof options === "object";
  return plain && typeof duplicate === "function" && (client as { isCluster?: unknown }).isCluster !== true;
}

export class IoredisPort implements RedisPort {
  readonly keyPrefix: string;
  readonly #client: IoredisClient;
  readonly #nowMs: () => number;
  /** Of a client of our own. */
  readonly #reconnection: Reconnection | null;
  readonly #listeners = new Set<IoredisClient>();
  /** Commands of a client of our own that have no reply yet. */
  readonly #unanswered = new Set<(error: Error) => void>();

  constructor(client: IoredisClient, nowMs: () => number, reconnection: Reconnection | null = null) {
    this.#client = client;
    this.#nowMs = nowMs;
    this.#reconnection = reconnection;
    if (reconnection !== null) client.on("close", () => this.#rejectUnanswered());
    this.keyPrefix = client.options.keyPrefix ?? "";
  }

  /** A client of our own. */
  static async connect(
    Redis: IoredisClass,
    url: string,
    tls: ConnectionOptions,
    nowMs: () => number,
  ): Promise<IoredisPort> {
    const again = new Reconnection();
    const client = new Redis(url, {
      ...again.options,
      ...(Object.keys(tls).length === 0 ? {} : { tls }),
      connectTimeout: CONNECT_MS,
      autoResendUnfulfilledCommands: false,
    });
    await again.connect(client);
    return new IoredisPort(client, nowMs, again);
  }

  send(words: readonly string[], patience: Patience): Promise<Reply> {
    if (this.#client.status === "ready") return this.#sendNow(words);
    // While a store is opened there is no timeout to retry within: the client's own queue waits for a
    // connection.
    if (patience.timeoutMs === undefined) return this.#sendNow(words);
    return retryWhileUnsent(patience, this.#nowMs, () => this.#sendWhenReady(words), { isUnsent });
  }

  get failure(): Error | null {
    return this.#client.status === "ready" ? null : (this.#reconnection?.failure ?? null);
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
    if (this.#reconnection !== null) this.#client.disconnect();
    return Promise.resolve();
  }

  #sendNow(words: readonly string[]): Promise<Reply> {
    const [command, ...args] = words as readonly [string, ...string[]];
    const sent = this.#client.call(command, ...args) as Promise<Reply>;
    // A client that was given sends its commands again after a reconnect.
    return this.#reconnection === null ? sent : this.#untilClosed(sent);
  }

  /** ioredis drops the commands that had no reply when their connection closed, and settles none of them. */
  #untilClosed(sent: Promise<Reply>): Promise<Reply> {
    return new Promise((resolve, reject) => {
      this.#unanswered.add(reject);
      sent.then(resolve, reject).finally(() => this.#unanswered.delete(reject));
    });
  }

  #rejectUnanswered(): void {
    for (const reject of this.#unanswered) reject(new Error("Connection is closed."));
    this.#unanswered.clear();
  }

  async #sendWhenReady(words: readonly string[]): Promise<Reply> {
    const { status } = this.#client;
    if (status === "end")
      throw new StoreUnavailableError("the ioredis client is closed", { retryable: false });
    // A client that connects on its first command has to be given one.
    if (status === "ready" || status === "wait") return this.#sendNow(words);
    throw new NotSentError(this.failure ?? new Error("there is no connection to Redis"));
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
  /** Why the last try failed. */
  failure: Error | null = null;
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
      this.failure = error instanceof Error ? error : new Error(String(error));
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
