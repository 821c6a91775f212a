// ioredis (5 and 6): a client that was given, and connections made with it. A client is known by its shape.

import { StoreUnavailableError } from "../../../core/errors.ts";
import { type Address, ClientConnection, type Connection } from "../topology/connection.ts";
import type { ClientAdapter } from "./given-client.ts";
import type { Reply } from "./port.ts";

/** The part of a client that is used. */
export interface IoredisClient {
  readonly status: string;
  readonly options: { readonly keyPrefix?: string };
  readonly stream?: { unref?(): void };
  call(command: string, ...args: readonly string[]): Promise<unknown>;
  duplicate(override?: object): IoredisClient;
  connect(): Promise<unknown>;
  subscribe(channel: string): Promise<unknown>;
  disconnect(): void;
  on(event: string, listener: (...args: readonly never[]) => void): unknown;
}

export type IoredisClass = {
  new (url: string, options: object): IoredisClient;
  new (options: object): IoredisClient;
};

const CONNECT_MS = 2_000;

export function isIoredis(client: object): client is IoredisClient {
  const { status, call, duplicate, options } = client as Partial<IoredisClient>;
  const isPlain = typeof status === "string" && typeof call === "function" && typeof options === "object";
  return isPlain && typeof duplicate === "function" && (client as { isCluster?: unknown }).isCluster !== true;
}

/** For `given-client.ts`. The offline queue of ioredis cannot be left again, so it is not used. */
export function adaptIoredis(client: IoredisClient): ClientAdapter {
  return {
    keyPrefix: client.options.keyPrefix ?? "",
    isReady: () => client.status === "ready",
    isConnecting() {
      const { status } = client;
      if (status === "end")
        throw new StoreUnavailableError("the ioredis client is closed", { retryable: false });
      // A client that connects on its first command ("wait") has to be given one.
      return status !== "ready" && status !== "wait";
    },
    send: (command) => sendBy(client, command),
    connect: (cancel) => connectIoredis(client.duplicate(ioredisOptions(null)), cancel),
  };
}

/** Options of a client for one connection. Without an address, a duplicate keeps its own. */
export function ioredisOptions(to: Address | null): object {
  return {
    ...to,
    lazyConnect: true,
    retryStrategy: () => null,
    sentinelRetryStrategy: () => null,
    reconnectOnError: null,
    enableOfflineQueue: false,
    enableReadyCheck: false,
    enableAutoPipelining: false,
    autoResubscribe: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: null,
    connectTimeout: CONNECT_MS,
    readOnly: false,
    stringNumbers: false,
  };
}

/** `client` was made with `ioredisOptions` and is not connected yet. */
export function connectIoredis(client: IoredisClient, cancel?: AbortSignal): Promise<Connection> {
  return new IoredisConnection(client).open(cancel);
}

class IoredisConnection extends ClientConnection {
  readonly #client: IoredisClient;
  readonly #unanswered = new Set<(error: Error) => void>();

  constructor(client: IoredisClient) {
    super();
    this.#client = client;
    this.onEnd(() => {
      for (const reject of this.#unanswered) reject(new Error("Connection is closed."));
      this.#unanswered.clear();
    });
    // ioredis itself only says "Connection is closed".
    client.on("error", (error: unknown) => this.setCause(error));
    client.on("connect", () => client.stream?.unref?.());
    client.on("close", () => this.end());
    client.on("end", () => this.end());
  }

  send(command: readonly string[]): Promise<Reply> {
    return this.#rejectAtEnd(sendBy(this.#client, command));
  }

  async subscribe(channel: string, onMessage: (message: string) => void): Promise<void> {
    this.#client.on("message", (_channel: string, message: string) => onMessage(message));
    await this.#client.subscribe(channel);
  }

  protected connectClient(): Promise<unknown> {
    return this.#client.connect();
  }

  protected closeClient(): void {
    this.#client.disconnect();
  }

  /** ioredis never settles the commands that had no reply when their connection closed. */
  #rejectAtEnd(sent: Promise<Reply>): Promise<Reply> {
    return new Promise((resolve, reject) => {
      this.#unanswered.add(reject);
      sent.then(
        (reply) => {
          this.#unanswered.delete(reject);
          resolve(reply);
        },
        (error: unknown) => {
          this.#unanswered.delete(reject);
          reject(error as Error);
        },
      );
    });
  }
}

function sendBy(client: IoredisClient, command: readonly string[]): Promise<Reply> {
  const [name, ...args] = command as readonly [string, ...string[]];
  return client.call(name, ...args) as Promise<Reply>;
}
